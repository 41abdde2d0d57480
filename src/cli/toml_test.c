#include "cli/toml.h"

#include "base/test.h"

static struct arena arena;
static struct toml_pair *pairs;
static size_t n;
static struct error err;

static bool parse(const char *text)
{
    return toml_parse(str_of(text), &arena, &pairs, &n, &err);
}

TEST(a_file_is_comments_blank_lines_and_pairs)
{
    CHECK(parse("# who\n\n  default_host = \"http://a:1\" # ours\r\n\"http://b\" = \"x\""));
    CHECK(n == 2);
    CHECK(str_equal(pairs[0].key, STR("default_host")));
    CHECK(str_equal(pairs[0].value, STR("http://a:1")));
    CHECK(str_equal(pairs[1].key, STR("http://b")));
    CHECK(str_equal(pairs[1].value, STR("x")));
}

TEST(nothing_at_all_is_an_empty_file)
{
    CHECK(parse("") && n == 0);
    CHECK(parse("\n\n#\n") && n == 0);
}

TEST(escapes_stand_for_one_character)
{
    CHECK(parse("a = \"\\\"\\\\\\n\\t\\u00e9\\U0001f600\"") && n == 1);
    CHECK(str_equal(pairs[0].value, STR("\"\\\n\t\xc3\xa9\xf0\x9f\x98\x80")));
}

TEST(what_is_not_understood_names_its_line)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"a = \"b\"\n[table]",     "line 2: only lines of the form key = \"value\" are understood"},
        {"a \"b\"",                "line 1: a = is missing after the key"                         },
        {"a = b",                  "line 1: the value must be a text in double quotes"            },
        {"a = 'b'",                "line 1: the value must be a text in double quotes"            },
        {"a = \"b",                "line 1: the text has no closing quote"                        },
        {"a = \"b\\",              "line 1: the text has no closing quote"                        },
        {"a = \"\\x\"",            "line 1: there is no such escape"                              },
        {"a = \"\\u12\"",          "line 1: an escape lacks its hexadecimal digits"               },
        {"a = \"\\ud800\"",        "line 1: an escape names no character"                         },
        {"a = \"\\u0000\"",        "line 1: an escape names no character"                         },
        {"a = \"b\" c",            "line 1: something follows the value"                          },
        {"a = \"b\x01\"",          "line 1: a control character must be written as an escape"     },
        {"a = \"b\"\n\na = \"c\"", "line 3: the key is there twice"                               },
        {"\xff = \"b\"",           "not UTF-8"                                                    },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(!parse(rows[i].text));
        CHECK_STR(err.text, rows[i].says);
    }
}

TEST(what_is_written_is_read_back)
{
    static const struct str values[] = {STR(""), STR("plain"), STR("a\"b\\c\n\x7f\t"),
                                        STR("http://127.0.0.1:3000"), STR("\xc3\xa9")};

    for (size_t i = 0; i < COUNT_OF(values); i++) {
        AUTO(buf_finish) struct buf out = {.max = 1024};
        const struct toml_pair pair = {values[i], values[COUNT_OF(values) - 1 - i]};

        CHECK(toml_append(&out, &pair, &err));
        CHECK(toml_parse(buf_str(&out), &arena, &pairs, &n, &err));
        CHECK(n == 1 && str_equal(pairs[0].key, pair.key) && str_equal(pairs[0].value, pair.value));
    }
}

TEST(a_file_over_its_limit_is_refused)
{
    static char large[TOML_BYTES_MAX + 2];

    memset(large, '\n', TOML_BYTES_MAX);
    CHECK(parse(large));
    large[TOML_BYTES_MAX] = '\n';
    CHECK(!parse(large) && err.code == ERR_TOO_LARGE);
    for (size_t i = 0; i <= TOML_PAIRS_MAX; i++)
        snprintf(large + 16 * i, 17, "k%-9zu=\"\"\n  ", i);
    CHECK(!parse(large));
    CHECK_STR(err.text, "line 257: too many lines");
}

TEST_MAIN()
