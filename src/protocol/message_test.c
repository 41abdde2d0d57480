#include "protocol/message.h"

#include "base/encode.h"
#include "base/file.h"
#include "base/own.h"
#include "base/test.h"
#include "protocol/samples.h"

enum { GOLDEN_MAX = 1 << 20 };

/* `NAME hex-of-the-frame`, one line per message in order of their numbers. */
static bool golden_append(struct buf *out, const struct message_info *info, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf frame = {.max = GOLDEN_MAX};
    struct message message;

    sample_fill(&arena, info, &message);
    if (!frame_append(&frame, info->type, &message.hello, err))
        return false;
    AUTO_FREE char *hex = alloc(2 * frame.len + 1);
    hex_encode(buf_str(&frame), hex);
    return buf_append(out, str_of(info->name), err) && buf_append(out, STR(" "), err) &&
           buf_append(out, str_of(hex), err) && buf_append(out, STR("\n"), err);
}

/* With HELMR_WRITE_GOLDEN set the file is written anew: for a change that is meant. */
TEST(every_message_encodes_to_its_golden_bytes)
{
    AUTO(buf_finish) struct buf now = {.max = GOLDEN_MAX};
    const char *root = getenv("HELMR_SOURCE_ROOT");
    struct error err;
    char path[4096];

    if (!root)
        SKIP("HELMR_SOURCE_ROOT is not set");
    snprintf(path, sizeof path, "%s/src/protocol/golden.txt", root);
    for (unsigned number = 0; number < 256; number++) {
        const struct message_info *info = message_info(number);
        CHECK(!info || golden_append(&now, info, &err));
    }
    CHECK(buf_append(&now, (struct str){"", 1}, &err));
    if (getenv("HELMR_WRITE_GOLDEN")) {
        FILE *file = fopen(path, "we");
        CHECK(file);
        CHECK(fputs(now.bytes, file) >= 0);
        CHECK(fclose(file) == 0);
    }
    AUTO_FREE char *golden = NULL;
    CHECK(file_read(path, GOLDEN_MAX, &golden, &err));
    CHECK_STR(now.bytes, golden);
}

TEST(what_was_encoded_decodes_to_the_same_bytes_again)
{
    for (unsigned number = 0; number < 256; number++) {
        const struct message_info *info = message_info(number);
        if (!info)
            continue;
        AUTO(arena_finish) struct arena arena = {0};
        AUTO(buf_finish) struct buf first = {.max = GOLDEN_MAX};
        AUTO(buf_finish) struct buf second = {.max = GOLDEN_MAX};
        struct message message, again;
        struct error err;

        sample_fill(&arena, info, &message);
        CHECK(message_encode(info->type, &message.hello, &first, &err));
        CHECK(message_decode(info->type, buf_str(&first), &arena, &again.hello, &err));
        CHECK(message_encode(info->type, &again.hello, &second, &err));
        CHECK(str_equal(buf_str(&first), buf_str(&second)));
    }
}

TEST(absent_fields_decode_as_nothing)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf body = {.max = 4096};
    struct message_a_start start = {.mode = STR("run")}, got;
    struct error err;

    CHECK(message_encode(MESSAGE_A_START, &start, &body, &err));
    CHECK(body.len == 2 + 4 + 3);
    CHECK(message_decode(MESSAGE_A_START, buf_str(&body), &arena, &got, &err));
    CHECK(str_equal(got.mode, STR("run")));
    CHECK(got.run_id.ptr == NULL && got.payload_len == 0);
}

static const struct {
    const char *what;
    enum message_type type;
    struct str body;
} refused[] = {
    {"an empty body lacks the required fields", MESSAGE_PING,       STR("")                                          },
    {"a field cut off inside its number",       MESSAGE_PING,       STR("\1")                                        },
    {"a number cut off",                        MESSAGE_PING,       STR("\1\2\0\0\0")                                },
    {"fields in the wrong order",               MESSAGE_PING,       STR("\2\2\0\0\0\0\0\0\0\0\1\2\0\0\0\0\0\0\0\0")  },
    {"a field twice",                           MESSAGE_PING,
     STR("\1\2\0\0\0\0\0\0\0\0\1\2\0\0\0\0\0\0\0\0\2\2\0\0\0\0\0\0\0\0")                                             },
    {"a field of another kind",                 MESSAGE_PING,       STR("\1\1\0\0\0\0\2\2\0\0\0\0\0\0\0\0")          },
    {"a kind that is not there",                MESSAGE_PING,       STR("\1\6\0\0\0\0")                              },
    {"field number nought",                     MESSAGE_PING,       STR("\0\2\0\0\0\0\0\0\0\0")                      },
    {"an unknown field below 128",              MESSAGE_PING,
     STR("\1\2\0\0\0\0\0\0\0\0\2\2\0\0\0\0\0\0\0\0\3\1\0\0\0\0")                                                     },
    {"a trailing byte",                         MESSAGE_PING,       STR("\1\2\0\0\0\0\0\0\0\0\2\2\0\0\0\0\0\0\0\0\3")},
    {"a length beyond the body",                MESSAGE_A_START,    STR("\1\4\xff\xff\xff\xff")                      },
    {"a text over its maximum",                 MESSAGE_A_START,    STR("\1\4\x11\0\0\0aaaaaaaaaaaaaaaaa")           },
    {"a NUL in a text",                         MESSAGE_A_START,    STR("\1\4\3\0\0\0r\0n")                          },
    {"a text that is not UTF-8",                MESSAGE_A_START,    STR("\1\4\2\0\0\0\xc0\x80")                      },
    {"a surrogate",                             MESSAGE_A_START,    STR("\1\4\3\0\0\0\xed\xa0\x80")                  },
    {"fixed bytes of another length",           MESSAGE_A_START,    STR("\1\4\3\0\0\0run\x10\3\1\0\0\0x")            },
    {"a NUL in a list element",                 MESSAGE_SETUP_DONE,
     STR("\1\2\0\0\0\0\0\0\0\0\2\5\1\0\0\0\0\3\1\0\0\0\0\4\1\0\0\0\0\5\4\0\0\0\0\6\4\0\0\0\0")                       },
};

TEST(a_broken_body_is_refused)
{
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        AUTO(arena_finish) struct arena arena = {0};
        struct message message;
        struct error err = {0};

        if (message_decode(refused[i].type, refused[i].body, &arena, &message.hello, &err))
            printf("# accepted: %s\n", refused[i].what);
        CHECK(err.text[0]);
    }
}

TEST(a_field_of_a_later_version_is_passed_over)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct message_ping ping;
    struct error err;

    CHECK(message_decode(
        MESSAGE_PING, STR("\1\2\7\0\0\0\0\0\0\0\2\2\0\0\0\0\0\0\0\0\x80\4\2\0\0\0hi\x81\1\0\0\0\0"),
        &arena, &ping, &err));
    CHECK(ping.number == 7);
}

TEST(a_list_over_its_count_is_refused_both_ways)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf body = {.max = 4096};
    struct str five[5] = {STR("1.1.1.1"), STR("1"), STR("2"), STR("3"), STR("4")};
    struct message message;
    struct error err;

    sample_fill(&arena, message_info(MESSAGE_SETUP), &message);
    message.setup.dns = (struct str_list){five, 5};
    CHECK(!message_encode(MESSAGE_SETUP, &message.setup, &body, &err));
    CHECK(body.len == 0);

    message.setup.dns.n = 4;
    CHECK(message_encode(MESSAGE_SETUP, &message.setup, &body, &err));
    message.setup.dns.n = 0;
    struct message_setup got;
    CHECK(message_decode(MESSAGE_SETUP, buf_str(&body), &arena, &got, &err));
    CHECK(got.dns.n == 4 && str_equal(got.dns.items[3], STR("3")));
}

TEST(the_table_is_in_order_and_within_its_limits)
{
    for (unsigned number = 0; number < 256; number++) {
        const struct message_info *info = message_info(number);
        if (!info)
            continue;
        CHECK(info->limit <= MESSAGE_BODY_MAX && info->senders);
        for (size_t i = 0; i < info->n_fields; i++) {
            CHECK(info->fields[i].number > 0 && info->fields[i].number < 128);
            CHECK(i == 0 || info->fields[i].number > info->fields[i - 1].number);
            CHECK(info->fields[i].max <= info->limit);
        }
    }
}

TEST_MAIN()
