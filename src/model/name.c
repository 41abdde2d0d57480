#include "model/name.h"

#include <stdint.h>
#include <stdio.h>

#include "base/encode.h"
#include "base/hash.h"

enum { DIGIT = 1, LOWER = 2, UPPER = 4, ALNUM = DIGIT | LOWER | UPPER };

/* A name begins with one of `first` and goes on with `rest`; `any` kinds hold any UTF-8. */
static const struct rule {
    int classes;       /* of letters and digits, in both places */
    const char *first; /* other characters it may begin with */
    const char *rest;
    size_t max;
    const char *text;
} rules[NAME_KIND_COUNT] = {
    [NAME_ID] = {ALNUM,                 "",   "._-",  128,
                 "1 to 128 of A-Z a-z 0-9 . _ -, the first a letter or digit"                                      },
    [NAME_QUEUE] = {ALNUM,                 "",   "._/-", 256,
                 "1 to 256 of A-Z a-z 0-9 . _ / -, the first a letter or digit"                                    },
    [NAME_STREAM] = {ALNUM,                 "",   "._-",  256,
                 "1 to 256 of A-Z a-z 0-9 . _ -, the first a letter or digit"                                      },
    [NAME_SECRET] =
        {ALNUM,                 "_",  "_.-",  128,
                 "1 to 128 of A-Z a-z 0-9 _ . -, the first no dot or hyphen, and no device name"                   },
    [NAME_VARIABLE] = {ALNUM,                 "_",  "_",    128,
                 "1 to 128 of A-Z a-z 0-9 _, the first no digit, not LD_* and not HELMR_*"                         },
    [NAME_SLUG] = {LOWER | DIGIT,         "",   "-",    63,  "1 to 63 of a-z 0-9 -, the first no hyphen"             },
    [NAME_EXTERNAL] = {0,                     NULL, NULL,   512,
                 "1 to 512 bytes without NUL and surrounding white space"                                          },
    [NAME_TAG] = {0,                     NULL, NULL,   128, "1 to 128 bytes without NUL and surrounding white space"},
    [NAME_TITLE] = {0,                     NULL, NULL,   200, "1 to 200 bytes without NUL and surrounding white space"},
    [NAME_COLOUR] = {DIGIT | LOWER | UPPER, "#",  "",     7,   "a colour such as #1a2b3c"                              },
};

static bool is_of(char c, int classes, const char *others)
{
    return (classes & DIGIT && c >= '0' && c <= '9') || (classes & LOWER && c >= 'a' && c <= 'z') ||
           (classes & UPPER && c >= 'A' && c <= 'Z') || (c && strchr(others, c));
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_free_text(struct str text)
{
    return !memchr(text.ptr, '\0', text.len) && !is_blank(text.ptr[0]) &&
           !is_blank(text.ptr[text.len - 1]) && utf8_is_valid(text);
}

static bool has_prefix(struct str text, struct str prefix)
{
    return text.len >= prefix.len && !memcmp(text.ptr, prefix.ptr, prefix.len);
}

/* Names that are no files on one system that the secret's own file may be copied to. */
static bool is_device_name(struct str text)
{
    static const char *const devices[] = {"CON", "PRN", "AUX", "NUL"};
    bool is_numbered = text.len == 4 && text.ptr[3] >= '1' && text.ptr[3] <= '9';
    struct str stem = {text.ptr, 3};

    for (size_t i = 0; i < COUNT_OF(devices); i++) {
        if (str_equal_nocase(text, str_of(devices[i])))
            return true;
    }
    return is_numbered &&
           (str_equal_nocase(stem, STR("COM")) || str_equal_nocase(stem, STR("LPT")));
}

static bool is_colour(struct str text)
{
    uint8_t rgb[3];

    return text.ptr[0] == '#' && hex_decode((struct str){text.ptr + 1, text.len - 1}, rgb, 3);
}

/* What an alphabet cannot say. */
static bool is_allowed(enum name_kind kind, struct str text)
{
    switch (kind) {
    case NAME_SECRET: return !is_device_name(text);
    case NAME_VARIABLE:
        return !(text.ptr[0] >= '0' && text.ptr[0] <= '9') && !has_prefix(text, STR("LD_")) &&
               !has_prefix(text, STR("HELMR_"));
    case NAME_COLOUR: return is_colour(text);
    case NAME_ID:
    case NAME_QUEUE:
    case NAME_STREAM:
    case NAME_SLUG:
    case NAME_EXTERNAL:
    case NAME_TAG:
    case NAME_TITLE:
    case NAME_KIND_COUNT: break;
    }
    return true;
}

bool name_is_valid(enum name_kind kind, struct str text)
{
    const struct rule *rule = &rules[kind];

    if (!text.len || text.len > rule->max)
        return false;
    if (!rule->rest)
        return is_free_text(text);
    for (size_t i = 0; i < text.len; i++) {
        if (!is_of(text.ptr[i], rule->classes, i ? rule->rest : rule->first))
            return false;
    }
    return is_allowed(kind, text);
}

bool name_check(enum name_kind kind, const char *what, struct str text, struct error *err)
{
    if (name_is_valid(kind, text))
        return true;
    return error_set(err, ERR_INVALID, "%s must be %s", what, rules[kind].text);
}

bool name_slugify(struct str title, char slug[SLUG_TEXT])
{
    size_t len = 0;

    for (size_t i = 0; i < title.len && len < SLUG_TEXT - 1; i++) {
        char c = title.ptr[i];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (is_of(c, LOWER | DIGIT, ""))
            slug[len++] = c;
        else if (len && slug[len - 1] != '-')
            slug[len++] = '-';
    }
    while (len && slug[len - 1] == '-')
        len--;
    slug[len] = '\0';
    return len;
}

void name_colour(struct str slug, char colour[COLOUR_TEXT])
{
    /* Distinct hues of one strength, readable on light and dark. */
    static const char *const palette[] = {"#d14343", "#c2681d", "#9a7d0a", "#4f8a10",
                                          "#14866d", "#1779a8", "#4763d6", "#7d4fd1",
                                          "#b03fb5", "#c93d78", "#6b7280", "#8a5a44"};

    snprintf(colour, COLOUR_TEXT, "%s", palette[crc32c(0, slug) % COUNT_OF(palette)]);
}
