#include "worker/redact.h"

#include "base/encode.h"
#include "base/own.h"
#include "base/test.h"

enum { OUT_MAX = 1 << 22 };

/* A redactor of up to four texts. */
static struct redactor *make(const struct str *values, size_t n)
{
    struct secret secrets[4];
    const struct secret *pointers[4] = {0};

    for (size_t i = 0; i < n; i++) {
        secrets[i] = secret_create(values[i]);
        pointers[i] = &secrets[i];
    }
    struct redactor *redactor = redactor_create(pointers, n);
    for (size_t i = 0; i < n; i++)
        secret_finish(&secrets[i]);
    return redactor;
}

static void drop(struct redactor **redactor)
{
    redactor_destroy(*redactor);
}

#define REDACTOR(...)                       \
    make((const struct str[]){__VA_ARGS__}, \
         sizeof((const struct str[]){__VA_ARGS__}) / sizeof(struct str))

static bool collect(void *arg, struct str bytes)
{
    struct error err = {0};

    return buf_append(arg, bytes, &err);
}

static bool redacts_to(const struct redactor *redactor, struct str text, struct str wanted)
{
    AUTO(buf_finish) struct buf out = {.max = OUT_MAX};
    struct error err = {0};

    if (!redact_text(redactor, text, &out, &err))
        return false;
    if (str_equal(buf_str(&out), wanted))
        return true;
    printf("# got: %.*s\n", (int)out.len, out.bytes);
    return false;
}

/* The same in two parts, cut at every place, and byte by byte. */
static bool is_the_same_however_cut(const struct redactor *redactor, struct str text,
                                    struct str wanted)
{
    for (size_t cut = 0; cut <= text.len; cut++) {
        AUTO(buf_finish) struct buf two = {.max = OUT_MAX}, many = {.max = OUT_MAX};
        struct redaction redaction;

        redaction_init(&redaction, redactor, collect, &two);
        (void)redaction_feed(&redaction, (struct str){text.ptr, cut});
        (void)redaction_feed(&redaction, (struct str){text.ptr + cut, text.len - cut});
        (void)redaction_end(&redaction);
        redaction_init(&redaction, redactor, collect, &many);
        for (size_t at = 0, step = cut + 1; at < text.len; at += step) {
            size_t left = text.len - at;
            (void)redaction_feed(&redaction,
                                 (struct str){text.ptr + at, left < step ? left : step});
        }
        (void)redaction_end(&redaction);
        if (!str_equal(buf_str(&two), wanted) || !str_equal(buf_str(&many), wanted)) {
            printf("# cut at %zu: %.*s\n", cut, (int)two.len, two.bytes);
            return false;
        }
    }
    return true;
}

TEST(split_secrets_are_redacted)
{
    AUTO(drop) struct redactor *redactor = REDACTOR(STR("hunter2-hunter3"), STR("0123456789"));

    CHECK(is_the_same_however_cut(
        redactor, STR("a hunter2-hunter3 b 012345678 0123456789, hunter2-hunter2-hunter3"),
        STR("a [redacted] b 012345678 [redacted], hunter2-[redacted]")));
}

TEST(text_without_secrets_passes_at_once)
{
    AUTO(drop) struct redactor *redactor = REDACTOR(STR("hunter2-hunter3"));
    AUTO(buf_finish) struct buf out = {.max = OUT_MAX};
    struct redaction redaction;

    redaction_init(&redaction, redactor, collect, &out);
    CHECK(redaction_feed(&redaction, STR("Done in 3 s\n")));
    CHECK(str_equal(buf_str(&out), STR("Done in 3 s\n")));
    CHECK(redaction_feed(&redaction, STR("hunter")));
    CHECK(str_equal(buf_str(&out), STR("Done in 3 s\n")));
    CHECK(redaction_feed(&redaction, STR("s")));
    CHECK(str_equal(buf_str(&out), STR("Done in 3 s\nhunters")));
    CHECK(redaction_end(&redaction));
}

TEST(overlapping_secrets_leave_nothing_of_either)
{
    AUTO(drop) struct redactor *redactor = REDACTOR(STR("abcdef"), STR("defghi"));

    CHECK(is_the_same_however_cut(redactor, STR("<abcdefghi> <abcdef> <defghi> <cdefgh>"),
                                  STR("<[redacted]> <[redacted]> <[redacted]> <cdefgh>")));
}

TEST(a_secret_that_begins_like_another_does_not_hide_it)
{
    AUTO(drop) struct redactor *redactor = REDACTOR(STR("token"), STR("token-long"), STR("oken-l"));

    CHECK(is_the_same_however_cut(redactor, STR("token token-long token-lo tok"),
                                  STR("[redacted] [redacted] [redacted]o tok")));
}

TEST(secrets_that_touch_become_one_mark)
{
    AUTO(drop) struct redactor *redactor = REDACTOR(STR("abcd"), STR("1234"));

    CHECK(
        is_the_same_however_cut(redactor, STR("abcdabcd1234 abcd"), STR("[redacted] [redacted]")));
}

TEST(short_values_are_left_alone)
{
    AUTO(drop) struct redactor *redactor = REDACTOR(STR("abc"), STR(""), STR("x\n\n\n"));

    CHECK(redacts_to(redactor, STR("abc x\n\n\n x"), STR("abc [redacted] x")));
}

static void base64_of(struct str text, bool is_url, char *out)
{
    if (is_url) {
        base64url_encode(text, out);
        return;
    }
    base64_encode(text, out);
    out[base64_encoded_len(text.len)] = '\0';
}

/* Whatever stands around the value, at most the characters that mix both are left. */
TEST(base64_is_found_at_every_alignment)
{
    static const char value[] = "p?ss\xff\xfe~word>>";
    AUTO(drop) struct redactor *redactor = REDACTOR(STR("p?ss\xff\xfe~word>>"));

    for (size_t before = 0; before < 6; before++) {
        for (size_t behind = 0; behind < 4; behind++) {
            for (int is_url = 0; is_url < 2; is_url++) {
                char plain[64], encoded[128];
                AUTO(buf_finish) struct buf out = {.max = OUT_MAX};
                struct error err = {0};
                int len = snprintf(plain, sizeof plain, "%.*s%s%.*s", (int)before, "user:x", value,
                                   (int)behind, "@end");
                base64_of((struct str){plain, (size_t)len}, is_url, encoded);
                CHECK(redact_text(redactor, str_of(encoded), &out, &err));
                /* Characters of the value alone: at least all but two at each end. */
                size_t left = out.len - (sizeof REDACT_MARK - 1);
                CHECK(out.len > sizeof REDACT_MARK - 1 &&
                      memmem(out.bytes, out.len, REDACT_MARK, sizeof REDACT_MARK - 1));
                CHECK(left <= (before * 8 + 5) / 6 + (behind * 8 + 5) / 6 + 4);
            }
        }
    }
}

TEST(percent_encoded_values_are_found_in_both_cases)
{
    AUTO(drop) struct redactor *redactor = REDACTOR(STR("p/s w*rd?\xc3\xa9"));

    CHECK(redacts_to(redactor, STR("q=p%2Fs%20w%2Ard%3F%C3%A9&"), STR("q=[redacted]&")));
    CHECK(redacts_to(redactor, STR("q=p%2fs%20w%2ard%3f%c3%a9&"), STR("q=[redacted]&")));
    CHECK(redacts_to(redactor, STR("q=p%2Fs%20w*rd%3F%C3%A9&"), STR("q=[redacted]&")));
    CHECK(redacts_to(redactor, STR("q=p/s w*rd?\xc3\xa9&"), STR("q=[redacted]&")));
}

TEST(lines_of_a_key_are_found_one_by_one)
{
    AUTO(drop)
    struct redactor *redactor =
        REDACTOR(STR("-----BEGIN KEY-----\r\nMIIEpAIBAAKCAQEA\r\nshort\r\n-----END KEY-----\r\n"));

    CHECK(is_the_same_however_cut(redactor, STR("1: MIIEpAIBAAKCAQEA\n2: short\n"),
                                  STR("1: [redacted]\n2: short\n")));
    CHECK(redacts_to(redactor,
                     STR("-----BEGIN KEY-----\r\nMIIEpAIBAAKCAQEA\r\nshort\r\n-----END KEY-----"),
                     STR("[redacted]")));
}

TEST(a_newline_at_the_end_of_a_value_is_not_part_of_it)
{
    AUTO(drop) struct redactor *redactor = REDACTOR(STR("s3cr3t\n"));

    CHECK(redacts_to(redactor, STR("Bearer s3cr3t\r\n"), STR("Bearer [redacted]\r\n")));
}

TEST(binary_values_are_found)
{
    AUTO(drop) struct redactor *redactor = REDACTOR(STR("\0\1\2\0\xff\n\0"));

    CHECK(is_the_same_however_cut(redactor, STR("<\0\1\2\0\xff\n\0> \0\1\2\0"),
                                  STR("<[redacted]> \0\1\2\0")));
}

TEST(a_long_value_is_one_mark_and_its_pieces_are_found)
{
    static char value[3 * REDACT_PIECE + 77];
    AUTO(buf_finish) struct buf text = {.max = OUT_MAX};
    struct error err = {0};

    for (size_t i = 0; i < sizeof value; i++)
        value[i] = (char)('!' + (i * i + i / 7) % 90);
    AUTO(drop) struct redactor *redactor = REDACTOR({value, sizeof value});
    CHECK(buf_append(&text, STR("<"), &err));
    CHECK(buf_append(&text, (struct str){value, sizeof value}, &err));
    CHECK(buf_append(&text, STR(">"), &err));
    CHECK(is_the_same_however_cut(redactor, buf_str(&text), STR("<[redacted]>")));
    CHECK(
        redacts_to(redactor, (struct str){value + REDACT_PIECE, REDACT_PIECE}, STR("[redacted]")));
}

TEST(without_a_redactor_everything_passes)
{
    CHECK(redacts_to(NULL, STR("hunter2"), STR("hunter2")));
    AUTO(drop) struct redactor *redactor = redactor_create(NULL, 0);
    CHECK(redacts_to(redactor, STR("hunter2"), STR("hunter2")));
}

static bool refuse(void *arg, struct str bytes)
{
    (void)collect(arg, bytes);
    return false;
}

TEST(a_sink_without_room_still_gets_everything)
{
    AUTO(drop) struct redactor *redactor = REDACTOR(STR("hunter2"));
    AUTO(buf_finish) struct buf out = {.max = OUT_MAX};
    struct redaction redaction;

    redaction_init(&redaction, redactor, refuse, &out);
    CHECK(!redaction_feed(&redaction, STR("a hunter2 b hunt")));
    CHECK(!redaction_end(&redaction));
    CHECK(str_equal(buf_str(&out), STR("a [redacted] b hunt")));
}

static struct str json_of(const struct redactor *redactor, const char *text, struct buf *out)
{
    struct error err = {0};

    out->len = 0;
    return redact_json(redactor, str_of(text), out, &err) ? buf_str(out) : STR("refused");
}

TEST(strings_in_json_are_redacted_as_they_read)
{
    AUTO(secret_finish) struct secret quoted = secret_create(STR("say \"hi\"\n\xf0\x9f\x98\x80"));
    AUTO(secret_finish) struct secret number = secret_create(STR("20261115"));
    const struct secret *const values[] = {&quoted, &number};
    struct redactor *redactor = redactor_create(values, 2);
    AUTO(buf_finish) struct buf out = {.max = 65536};
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {"{}",                                                  "{}"                        },
        {"\"\"",                                                "\"\""                      },
        {"{\"a\" : [1, true, null, \"caf\\u00e9\\/\"]}",
         "{\"a\" : [1, true, null, \"caf\\u00e9\\/\"]}"                                     },
        {"{\"a\":\"x say \\\"hi\\\"\\n\\ud83d\\ude00 y\"}",     "{\"a\":\"x [redacted] y\"}"},
        {"{\"say \\u0022hi\\u0022\\u000a\xf0\x9f\x98\x80\":1}", "{\"[redacted]\":1}"        },
        {"[20261115,-3]",                                       "[\"[redacted]\",-3]"       },
        {"[\"\\ud83d x\"]",                                     "[\"\\ud83d x\"]"           },
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++)
        CHECK(str_equal(json_of(redactor, cases[i].text, &out), str_of(cases[i].clean)));
    redactor_destroy(redactor);
}

TEST(a_string_without_an_end_is_not_let_through)
{
    AUTO(secret_finish) struct secret secret = secret_create(STR("hunter22"));
    const struct secret *const values[] = {&secret};
    struct redactor *redactor = redactor_create(values, 1);
    AUTO(buf_finish) struct buf out = {.max = 65536};
    static const char *const texts[] = {"\"hunter22", "{\"a\":\"hunter22\\\"", "\""};

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct error err = {0};
        CHECK(!redact_json(redactor, str_of(texts[i]), &out, &err));
        CHECK(err.code == ERR_INVALID_JSON);
    }
    redactor_destroy(redactor);
}

TEST_MAIN()
