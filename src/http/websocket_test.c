#include "http/websocket.h"

#include <stdio.h>

#include "base/own.h"
#include "base/test.h"
#include "http/websocket_testing.h"

/* What the events told: every message as its kind and its bytes. */
struct heard {
    struct buf text;
    int messages, pongs;
    enum websocket_kind kind;
};

static void hear(void *arg, enum websocket_kind kind, struct str bytes)
{
    struct heard *heard = arg;
    struct error err;

    heard->messages++;
    heard->kind = kind;
    heard->text.max = MIB(8);
    if (!buf_append(&heard->text, bytes, &err))
        abort();
}

static void hear_pong(void *arg)
{
    ((struct heard *)arg)->pongs++;
}

static const struct websocket_events events = {.message = hear, .pong = hear_pong};

/* The close code that stands at the end of the output, or 0. */
static int said_code(struct websocket *ws)
{
    const struct buf *out = websocket_output(ws);
    const unsigned char *bytes = (const unsigned char *)out->bytes;

    for (size_t at = 0; at + 1 < out->len; at += 2U + bytes[at + 1]) {
        if ((bytes[at] & 0x0f) == FRAME_CLOSE)
            return bytes[at + 2] << 8 | bytes[at + 3];
        if (bytes[at + 1] > 125)
            return -1;
    }
    return 0;
}

/* Hands over what one has to say to the other. */
static void pass(struct websocket *from, struct websocket *to)
{
    struct buf *out = websocket_output(from);

    websocket_feed(to, buf_str(out));
    buf_consume(out, out->len);
}

TEST(the_two_ends_understand_each_other)
{
    struct heard here = {0}, there = {0};
    struct websocket *server = websocket_create(WEBSOCKET_SERVER, &events, &here, MIB(1));
    struct websocket *client = websocket_create(WEBSOCKET_CLIENT, &events, &there, MIB(1));
    struct error err;

    CHECK(websocket_send(client, WEBSOCKET_TEXT, STR("{\"a\":1}"), &err));
    pass(client, server);
    CHECK((int)(here.messages) == (int)(1));
    CHECK((int)(here.kind) == (int)(WEBSOCKET_TEXT));
    CHECK(str_equal(buf_str(&here.text), STR("{\"a\":1}")));
    CHECK(websocket_send(server, WEBSOCKET_BINARY, STR("\0\x1b[38;2;1;2;3m\xff"), &err));
    websocket_ping(server);
    pass(server, client);
    CHECK((int)(there.kind) == (int)(WEBSOCKET_BINARY));
    CHECK(str_equal(buf_str(&there.text), STR("\0\x1b[38;2;1;2;3m\xff")));
    pass(client, server);
    CHECK((int)(here.pongs) == (int)(1));
    websocket_close(server, WEBSOCKET_GOING_AWAY, "the server stops");
    CHECK(!websocket_send(server, WEBSOCKET_TEXT, STR("late"), &err));
    CHECK((int)(err.code) == (int)(ERR_CONFLICT));
    pass(server, client);
    CHECK(websocket_is_ending(client));
    CHECK((int)(websocket_peer_code(client)) == (int)(WEBSOCKET_GOING_AWAY));
    CHECK_STR(websocket_peer_reason(client), "the server stops");
    buf_finish(&here.text);
    buf_finish(&there.text);
    websocket_destroy(server);
    websocket_destroy(client);
}

/* What is wrong, in frames without their mask, and the code that must answer it. */
static const struct {
    const char *what;
    struct str bytes; /* the mask is nothing */
    int code;
} abuse[] = {
    {"a frame without a mask",          STR("\x81\x02hi"),                            1002},
    {"a reserved bit",                  STR("\xc1\x80\0\0\0\0"),                      1002},
    {"an opcode that nobody knows",     STR("\x83\x80\0\0\0\0"),                      1002},
    {"a control frame in pieces",       STR("\x09\x80\0\0\0\0"),                      1002},
    {"a ping of more than 125 bytes",   STR("\x89\xfe\x00\x7e\0\0\0\0"),              1002},
    {"a continuation of nothing",       STR("\x80\x80\0\0\0\0"),                      1002},
    {"a new message inside another",    STR("\x01\x80\0\0\0\0\x81\x80\0\0\0\0"),      1002},
    {"a length longer than it need be", STR("\x82\xfe\x00\x05\0\0\0\0"),              1002},
    {"64 bits for a small length",      STR("\x82\xff\0\0\0\0\0\0\0\x05\0\0\0\0"),    1002},
    {"a length with its highest bit",   STR("\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0"),    1002},
    {"a frame of an exabyte",           STR("\x82\xff\x10\0\0\0\0\0\0\0\0\0\0\0x"),   1009},
    {"a frame over 64 KiB",             STR("\x82\xff\0\0\0\0\0\x01\0\x01\0\0\0\0x"), 1009},
    {"a close with a code never sent",  STR("\x88\x82\0\0\0\0\x03\xed"),              1002},
    {"text that is not UTF-8",          STR("\x81\x82\0\0\0\0\xc3\x28"),              1007},
    {"text that ends inside a letter",  STR("\x81\x81\0\0\0\0\xc3"),                  1007},
};

TEST(whoever_breaks_a_rule_is_told_by_a_code_and_not_heard_again)
{
    for (size_t i = 0; i < COUNT_OF(abuse); i++) {
        for (int bytewise = 0; bytewise < 2; bytewise++) {
            struct heard heard = {0};
            struct websocket *ws = websocket_create(WEBSOCKET_SERVER, &events, &heard, MIB(1));
            struct str bytes = abuse[i].bytes;

            if (!bytewise)
                websocket_feed(ws, bytes);
            for (size_t at = 0; bytewise && at < bytes.len; at++)
                websocket_feed(ws, (struct str){bytes.ptr + at, 1});
            if (said_code(ws) != abuse[i].code || !websocket_is_ending(ws))
                printf("# %s: %d\n", abuse[i].what, said_code(ws));
            CHECK((int)(said_code(ws)) == (int)(abuse[i].code));
            CHECK(websocket_is_ending(ws));
            websocket_feed(ws, STR("\x82\x82\0\0\0\0hi"));
            CHECK((int)(heard.messages) == (int)(0));
            websocket_destroy(ws);
        }
    }
}

static void feed_frame(struct websocket *ws, unsigned first, struct str text)
{
    AUTO_FREE char *frame = alloc(text.len + 14);

    websocket_feed(ws, (struct str){frame, testing_frame(frame, first, text)});
}

TEST(a_message_in_pieces_is_one_message_up_to_its_limit)
{
    struct heard heard = {0};
    struct websocket *ws = websocket_create(WEBSOCKET_SERVER, &events, &heard, MIB(1));
    AUTO_FREE char *piece = alloc(WEBSOCKET_FRAME_MAX);

    memset(piece, 'p', WEBSOCKET_FRAME_MAX);
    for (int i = 0; i < 16; i++) {
        feed_frame(ws, (i == 15 ? FRAME_FIN : 0U) | (i == 0 ? FRAME_BINARY : FRAME_CONTINUATION),
                   (struct str){piece, WEBSOCKET_FRAME_MAX});
        feed_frame(ws, FRAME_FIN | FRAME_PING, STR("between"));
    }
    CHECK((int)(heard.messages) == (int)(1));
    CHECK((int)(heard.text.len) == (int)(WEBSOCKET_MESSAGE_MAX));
    CHECK(!websocket_is_ending(ws));
    for (int i = 0; i < 17; i++)
        feed_frame(ws, i == 0 ? FRAME_BINARY : FRAME_CONTINUATION,
                   (struct str){piece, WEBSOCKET_FRAME_MAX});
    CHECK(websocket_is_ending(ws));
    CHECK((int)(heard.messages) == (int)(1));
    buf_finish(&heard.text);
    websocket_destroy(ws);
}

TEST(a_message_in_crumbs_is_refused)
{
    struct heard heard = {0};
    struct websocket *ws = websocket_create(WEBSOCKET_SERVER, &events, &heard, MIB(1));

    feed_frame(ws, FRAME_BINARY, STR("c"));
    for (int i = 0; i < WEBSOCKET_FRAMES_MAX; i++)
        feed_frame(ws, FRAME_CONTINUATION, STR("c"));
    CHECK((int)(said_code(ws)) == (int)(WEBSOCKET_TOO_LARGE));
    websocket_destroy(ws);
}

TEST(one_that_pings_and_reads_nothing_has_an_end)
{
    struct heard heard = {0};
    struct websocket *ws = websocket_create(WEBSOCKET_SERVER, &events, &heard, 1000);

    for (int i = 0; i < 100; i++)
        feed_frame(ws, FRAME_FIN | FRAME_PING, STR("a hundred and some bytes of nothing at all"));
    CHECK(websocket_is_choked(ws));
    CHECK(websocket_output(ws)->len <= 1000);
    websocket_destroy(ws);
}

TEST(an_accept_is_what_the_rfc_makes_of_its_example)
{
    char accept[WEBSOCKET_ACCEPT_TEXT], key[WEBSOCKET_KEY_TEXT];

    websocket_accept_of(STR("dGhlIHNhbXBsZSBub25jZQ=="), accept);
    CHECK_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    websocket_make_key(key);
    CHECK((int)(strlen(key)) == (int)(WEBSOCKET_KEY_TEXT - 1));
}

TEST_MAIN()
