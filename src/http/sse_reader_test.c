#include "http/sse_reader.h"

#include "base/test.h"

static char seen[4096];
static struct error err;

static bool note(void *arg, const struct sse_event *event)
{
    size_t len = strlen(seen);

    snprintf(seen + len, sizeof seen - len, "[%.*s|%.*s|%.*s]", (int)event->id.len, event->id.ptr,
             (int)event->name.len, event->name.ptr, (int)event->data.len, event->data.ptr);
    return arg == NULL;
}

static bool read_all(struct str bytes, size_t step)
{
    AUTO(sse_reader_finish) struct sse_reader reader;

    seen[0] = '\0';
    sse_reader_init(&reader, note, NULL);
    while (bytes.len > 0) {
        size_t len = step < bytes.len ? step : bytes.len;

        if (!sse_reader_push(&reader, (struct str){bytes.ptr, len}, &err))
            return false;
        bytes = (struct str){bytes.ptr + len, bytes.len - len};
    }
    return true;
}

/* Each whole and byte by byte. */
static const struct {
    const char *what, *want;
    struct str bytes;
} cases[] = {
    {"one event",            "[7|run_event|{}]",           STR("id: 7\nevent: run_event\ndata: {}\n\n")},
    {"no name",              "[|message|a]",               STR("data: a\n\n")                          },
    {"lines joined",         "[|message|a\nb]",            STR("data: a\ndata:b\n\n")                  },
    {"one blank cut",        "[|message| a]",              STR("data:  a\n\n")                         },
    {"CRLF",                 "[1|message|a]",              STR("id: 1\r\ndata: a\r\n\r\n")             },
    {"CR",                   "[1|message|a]",              STR("id: 1\rdata: a\r\r")                   },
    {"comment",              "[|message|a]",               STR(": keep-alive\n\ndata: a\n\n")          },
    {"unknown field",        "[|message|a]",               STR("retry: 5\nfoo\ndata: a\n\n")           },
    {"data without a colon", "[|message|]",                STR("data\n\n")                             },
    {"id stays",             "[1|message|a][1|message|b]", STR("id: 1\ndata: a\n\ndata: b\n\n")        },
    {"id with NUL",          "[|message|a]",               STR("id: 1\0002\ndata: a\n\n")              },
    {"no data, no event",    "",                           STR("event: x\nid: 1\n\n")                  },
    {"cut off",              "",                           STR("data: a\n")                            },
};

TEST(events_come_out_however_they_are_cut)
{
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK(read_all(cases[i].bytes, cases[i].bytes.len));
        CHECK_STR(seen, cases[i].want);
        CHECK(read_all(cases[i].bytes, 1));
        CHECK_STR(seen, cases[i].want);
    }
}

TEST(a_line_without_end_is_refused)
{
    static char line[SSE_LINE_MAX + 1];

    memset(line, 'a', sizeof line);
    CHECK(!read_all((struct str){line, sizeof line}, 65536));
    CHECK(err.code == ERR_TOO_LARGE);
}

TEST(the_callback_can_end_it)
{
    AUTO(sse_reader_finish) struct sse_reader reader;

    seen[0] = '\0';
    sse_reader_init(&reader, note, &reader);
    CHECK(sse_reader_push(&reader, STR("data: a\n\ndata: b\n\n"), &err));
    CHECK_STR(seen, "[|message|a]");
}

TEST_MAIN()
