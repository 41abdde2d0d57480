#include "http/multipart.h"

#include <sys/mman.h>

#include "base/own.h"
#include "base/test.h"

#define TYPE     "multipart/form-data; boundary=xyz"
#define METADATA "--xyz\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n{}\r\n"
#define END      "--xyz--\r\n"

static struct multipart parts;
static struct multipart_part part;
static struct error err;
static bool found;

static int file_of(struct str bytes)
{
    int fd = memfd_create("multipart", MFD_CLOEXEC);

    if (fd < 0 || write(fd, bytes.ptr, bytes.len) != (ssize_t)bytes.len)
        abort();
    return fd;
}

/* How many parts come out, or -1 when the body is refused. */
static int count_parts(struct str type, struct str bytes)
{
    AUTO_FD int fd = file_of(bytes);
    int n = 0;

    if (!multipart_begin(&parts, type, fd, bytes.len, &err))
        return -1;
    for (;; n++) {
        if (!multipart_next(&parts, &part, &found, &err))
            return -1;
        if (!found)
            return n;
    }
}

TEST(parts_come_out_as_places_in_the_file)
{
    struct str bytes = STR(METADATA "--xyz\r\ncontent-type: application/x-tar\r\n"
                                    "Content-Disposition: form-data; name=source; "
                                    "filename=\"a \\\"b\\\".tar\"\r\n\r\n\r\n-\r\n--xy\r\n" END);
    AUTO_FD int fd = file_of(bytes);

    CHECK(multipart_begin(&parts, STR(TYPE), fd, bytes.len, &err));
    CHECK(multipart_next(&parts, &part, &found, &err) && found);
    CHECK_STR(part.name, "metadata");
    CHECK(part.len == 2 && memcmp(bytes.ptr + part.offset, "{}", 2) == 0);
    CHECK(multipart_next(&parts, &part, &found, &err) && found);
    CHECK_STR(part.name, "source");
    CHECK_STR(part.filename, "a \"b\".tar");
    CHECK(part.len == 9 && memcmp(bytes.ptr + part.offset, "\r\n-\r\n--xy", 9) == 0);
    CHECK(multipart_next(&parts, &part, &found, &err) && !found);
    CHECK(multipart_next(&parts, &part, &found, &err) && !found);
}

static const struct {
    const char *what;
    int want;
    struct str type, bytes;
} cases[] = {
    {"one part",                1,  STR(TYPE),                                       STR(METADATA END)                        },
    {"no last line end",        1,  STR(TYPE),                                       STR(METADATA "--xyz--")                  },
    {"quoted boundary",         1,  STR("Multipart/Form-Data;boundary=\"xyz\""),     STR(METADATA END)                        },
    {"no part",                 0,  STR(TYPE),                                       STR(END)                                 },
    {"empty part",              1,  STR(TYPE),
     STR("--xyz\r\nContent-Disposition: form-data; name=a"
         "\r\n\r\n\r\n" END)                                                                                                  },
    {"another type",            -1, STR("text/plain; boundary=xyz"),                 STR(METADATA END)                        },
    {"no type",                 -1, STR(""),                                         STR(METADATA END)                        },
    {"no boundary",             -1, STR("multipart/form-data"),                      STR(METADATA END)                        },
    {"empty boundary",          -1, STR("multipart/form-data; boundary="),           STR(METADATA END)                        },
    {"boundary with a quote",   -1, STR("multipart/form-data; boundary=\"x\\\"z\""), STR(METADATA)                            },
    {"boundary never closed",   -1, STR("multipart/form-data; boundary=\"xyz"),      STR(METADATA END)                        },
    {"boundary over its limit", -1,
     STR("multipart/form-data; boundary=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
         "xxxxxxxxxxxx"),
     STR(METADATA END)                                                                                                        },
    {"empty body",              -1, STR(TYPE),                                       STR("")                                  },
    {"preamble",                -1, STR(TYPE),                                       STR("hello\r\n" METADATA END)            },
    {"epilogue",                -1, STR(TYPE),                                       STR(METADATA END "x")                    },
    {"no end",                  -1, STR(TYPE),                                       STR(METADATA)                            },
    {"cut in a part",           -1, STR(TYPE),
     STR("--xyz\r\nContent-Disposition: form-data; name=a"
         "\r\n\r\nabc")                                                                                                       },
    {"cut in a head",           -1, STR(TYPE),                                       STR("--xyz\r\nContent-Disposition: form")},
    {"longer boundary",         -1, STR(TYPE),                                       STR(METADATA "--xyzz--\r\n")             },
    {"no disposition",          -1, STR(TYPE),                                       STR("--xyz\r\nA: b\r\n\r\nabc\r\n" END)  },
    {"no headers",              -1, STR(TYPE),                                       STR("--xyz\r\n\r\n\r\nabc\r\n" END)      },
    {"no name",                 -1, STR(TYPE),
     STR("--xyz\r\nContent-Disposition: form-data"
         "\r\n\r\nabc\r\n" END)                                                                                               },
    {"two names",               -1, STR(TYPE),
     STR("--xyz\r\nContent-Disposition: form-data; name=a"
         "; name=b\r\n\r\nabc\r\n" END)                                                                                       },
    {"two dispositions",        -1, STR(TYPE),
     STR("--xyz\r\nContent-Disposition: form-data; name=a"
         "\r\nContent-Disposition: form-data; name=b"
         "\r\n\r\nabc\r\n" END)                                                                                               },
    {"an attachment",           -1, STR(TYPE),
     STR("--xyz\r\nContent-Disposition: attachment; name=a"
         "\r\n\r\nabc\r\n" END)                                                                                               },
    {"bare LF",                 -1, STR(TYPE),
     STR("--xyz\r\nA: b\nContent-Disposition: form-data; "
         "name=a\r\n\r\nabc\r\n" END)                                                                                         },
    {"NUL in a header",         -1, STR(TYPE),
     STR("--xyz\r\nA: \0b\r\nContent-Disposition: "
         "form-data; name=a\r\n\r\nabc\r\n" END)                                                                              },
};

TEST(what_is_malformed_is_refused)
{
    int wrong = 0;

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int got = count_parts(cases[i].type, cases[i].bytes);

        if (got == cases[i].want)
            continue;
        printf("# %s: want %d, got %d\n", cases[i].what, cases[i].want, got);
        wrong++;
    }
    CHECK(wrong == 0);
}

TEST(a_boundary_across_two_blocks_is_found)
{
    static char bytes[200 * 1024];
    static const char head[] = "--xyz\r\nContent-Disposition: form-data; name=a\r\n\r\n";
    static const char tail[] = "\r\n--xyz--\r\n";

    for (size_t len = 16384 - 12; len < 16384 + 12; len++) {
        size_t total = sizeof head - 1 + len + sizeof tail - 1;

        memset(bytes, '\r', total);
        memcpy(bytes, head, sizeof head - 1);
        memcpy(bytes + sizeof head - 1 + len, tail, sizeof tail - 1);
        CHECK(count_parts(STR(TYPE), (struct str){bytes, total}) == 1);
        CHECK(part.len == len);
    }
}

TEST_MAIN()
