#include "protocol/frame.h"

#include "base/own.h"
#include "base/test.h"
#include "protocol/samples.h"

/* Every message that the side may send, and two data frames, one after the other. */
static bool conversation(enum side sender, struct buf *out, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};

    for (unsigned number = 0; number < 256; number++) {
        const struct message_info *info = message_info(number);
        struct message message;
        if (!info || !(info->senders & (unsigned)sender) || info->type == MESSAGE_DATA)
            continue;
        sample_fill(&arena, info, &message);
        if (!frame_append(out, info->type, &message.hello, err))
            return false;
    }
    char header[FRAME_HEADER_LEN];
    frame_header(header, 4, MESSAGE_DATA, 0, 3);
    if (!buf_append(out, (struct str){header, sizeof header}, err) ||
        !buf_append(out, STR("data"), err))
        return false;
    frame_header(header, 0, MESSAGE_DATA, FRAME_END, 0x1234);
    return buf_append(out, (struct str){header, sizeof header}, err);
}

/* Feeds in pieces of `step` bytes and writes down what came out. */
static bool transcript(enum side sender, struct str input, size_t step, struct buf *out,
                       struct error *err)
{
    AUTO(frame_decoder_finish) struct frame_decoder decoder;

    frame_decoder_init(&decoder, sender);
    for (size_t at = 0; at < input.len; at += step) {
        size_t len = input.len - at < step ? input.len - at : step;
        struct str piece = {input.ptr + at, len};
        while (piece.len) {
            struct frame frame;
            bool is_whole;
            if (!frame_decode(&decoder, &piece, &frame, &is_whole, err))
                return false;
            char line[64];
            snprintf(line, sizeof line, "%d %d %d %zu:", (int)frame.type, frame.flags, frame.stream,
                     frame.body.len);
            if (is_whole && (!buf_append(out, str_of(line), err) ||
                             (frame.body.len && !buf_append(out, frame.body, err))))
                return false;
        }
    }
    return true;
}

TEST(frames_are_the_same_whole_and_in_pieces)
{
    static const enum side sides[] = {SIDE_HOST, SIDE_GUEST, SIDE_AGENT, SIDE_ADAPTER};

    for (size_t i = 0; i < COUNT_OF(sides); i++) {
        AUTO(buf_finish) struct buf input = {.max = 1 << 20}, whole = {.max = 1 << 20};
        struct error err;
        CHECK(conversation(sides[i], &input, &err));
        CHECK(transcript(sides[i], buf_str(&input), input.len, &whole, &err));
        CHECK(whole.len > 40);
        for (size_t step = 1; step < 20; step++) {
            AUTO(buf_finish) struct buf pieces = {.max = 1 << 20};
            CHECK(transcript(sides[i], buf_str(&input), step, &pieces, &err));
            CHECK(str_equal(buf_str(&whole), buf_str(&pieces)));
        }
    }
}

static const struct {
    const char *what;
    enum side sender;
    struct str bytes;
} refused[] = {
    {"a type that is not there",          SIDE_HOST,    STR("\0\0\0\0\xff\0\0\0")      },
    {"type nought",                       SIDE_HOST,    STR("\0\0\0\0\0\0\0\0")        },
    {"a guest's message from the host",   SIDE_HOST,    STR("\0\0\0\0\1\0\0\0")        },
    {"a host's message from the guest",   SIDE_GUEST,   STR("\0\0\0\0\2\0\0\0")        },
    {"an agent's message from the guest", SIDE_GUEST,   STR("\0\0\0\0\x65\0\0\0")      },
    {"a launch from the adapter",         SIDE_ADAPTER, STR("\0\0\0\0\x14\0\0\0")      },
    {"a length over the type's bound",    SIDE_HOST,    STR("\1\0\1\0\4\0\0\0")        },
    {"a length of four gigabytes",        SIDE_HOST,    STR("\xff\xff\xff\xff\4\0\0\0")},
    {"control on a data stream",          SIDE_HOST,    STR("\0\0\0\0\4\0\1\0")        },
    {"data on the control stream",        SIDE_HOST,    STR("\0\0\0\0\7\0\0\0")        },
    {"a flag on a control message",       SIDE_HOST,    STR("\0\0\0\0\4\1\0\0")        },
    {"an unknown flag on data",           SIDE_HOST,    STR("\0\0\0\0\7\2\1\0")        },
};

TEST(a_bad_header_is_refused_as_soon_as_it_is_whole)
{
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        AUTO(buf_finish) struct buf out = {.max = 4096};
        struct error err = {0};

        if (transcript(refused[i].sender, refused[i].bytes, 8, &out, &err))
            printf("# accepted: %s\n", refused[i].what);
        CHECK(err.text[0]);
        err = (struct error){0};
        CHECK(!transcript(refused[i].sender, refused[i].bytes, 1, &out, &err));
    }
}

TEST(a_claimed_length_allocates_nothing)
{
    AUTO(frame_decoder_finish) struct frame_decoder decoder;
    struct str header = STR("\0\0\x8\0\x14\0\0\0");
    struct frame frame;
    struct error err;
    bool is_whole;

    frame_decoder_init(&decoder, SIDE_HOST);
    CHECK(frame_decode(&decoder, &header, &frame, &is_whole, &err));
    CHECK(!is_whole && header.len == 0);
    CHECK(decoder.pending.cap < 8192);
}

TEST_MAIN()
