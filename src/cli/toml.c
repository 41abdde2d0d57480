#include "cli/toml.h"

#include <stdint.h>
#include <stdio.h>

#include "base/encode.h"

struct cursor {
    struct str rest; /* of the line */
    size_t line;
    struct arena *arena;
    struct error *err;
};

static bool complain(const struct cursor *at, const char *what)
{
    return error_set(at->err, ERR_INVALID, "line %zu: %s", at->line, what);
}

static void skip(struct cursor *at, size_t n)
{
    at->rest = (struct str){at->rest.ptr + n, at->rest.len - n};
}

static bool next_is(const struct cursor *at, char wanted)
{
    return at->rest.len > 0 && at->rest.ptr[0] == wanted;
}

static void skip_blanks(struct cursor *at)
{
    while (next_is(at, ' ') || next_is(at, '\t'))
        skip(at, 1);
}

static size_t put_utf8(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

static bool read_code(struct cursor *at, size_t digits, char *out, size_t *len)
{
    uint8_t bytes[4] = {0};

    if (at->rest.len < digits ||
        !hex_decode((struct str){at->rest.ptr, digits}, bytes + (4 - digits / 2), digits / 2))
        return complain(at, "an escape lacks its hexadecimal digits");

    uint32_t code =
        (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];

    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return complain(at, "an escape names no character");
    skip(at, digits);
    *len += put_utf8(code, out + *len);
    return true;
}

static bool read_escape(struct cursor *at, char *out, size_t *len)
{
    static const char names[] = "btnfr\"\\", values[] = "\b\t\n\f\r\"\\";

    if (at->rest.len == 0)
        return complain(at, "the text has no closing quote");

    char name = at->rest.ptr[0];
    const char *found = name ? strchr(names, name) : NULL;

    skip(at, 1);
    if (name == 'u' || name == 'U')
        return read_code(at, name == 'u' ? 4 : 8, out, len);
    if (!found)
        return complain(at, "there is no such escape");
    out[(*len)++] = values[found - names];
    return true;
}

/* The opening quote is next. An escape is never shorter than what it stands for. */
static bool read_quoted(struct cursor *at, struct str *text)
{
    char *out = arena_alloc(at->arena, at->rest.len + 1);
    size_t len = 0;

    skip(at, 1);
    while (at->rest.len > 0) {
        char c = at->rest.ptr[0];

        skip(at, 1);
        if (c == '"') {
            *text = (struct str){out, len};
            return true;
        }
        if (c == '\\') {
            if (!read_escape(at, out, &len))
                return false;
        } else if ((unsigned char)c < ' ' && c != '\t') {
            return complain(at, "a control character must be written as an escape");
        } else {
            out[len++] = c;
        }
    }
    return complain(at, "the text has no closing quote");
}

static bool is_bare(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static bool read_key(struct cursor *at, struct str *key)
{
    size_t len = 0;

    if (next_is(at, '"'))
        return read_quoted(at, key);
    while (len < at->rest.len && is_bare(at->rest.ptr[len]))
        len++;
    if (len == 0)
        return complain(at, "only lines of the form key = \"value\" are understood");
    *key = arena_str(at->arena, (struct str){at->rest.ptr, len});
    skip(at, len);
    return true;
}

static bool read_pair(struct cursor *at, struct toml_pair *pair)
{
    if (!read_key(at, &pair->key))
        return false;
    skip_blanks(at);
    if (!next_is(at, '='))
        return complain(at, "a = is missing after the key");
    skip(at, 1);
    skip_blanks(at);
    if (!next_is(at, '"'))
        return complain(at, "the value must be a text in double quotes");
    if (!read_quoted(at, &pair->value))
        return false;
    skip_blanks(at);
    return at->rest.len == 0 || next_is(at, '#') || complain(at, "something follows the value");
}

static bool is_known(const struct toml_pair *pairs, size_t n, struct str key)
{
    for (size_t i = 0; i < n; i++) {
        if (str_equal(pairs[i].key, key))
            return true;
    }
    return false;
}

bool toml_parse(struct str text, struct arena *arena, struct toml_pair **pairs, size_t *n,
                struct error *err)
{
    struct toml_pair *list = arena_array(arena, TOML_PAIRS_MAX, sizeof *list);
    struct cursor at = {.arena = arena, .err = err};
    size_t count = 0;
    struct str line;

    if (text.len > TOML_BYTES_MAX)
        return error_set(err, ERR_TOO_LARGE, "over %d bytes", TOML_BYTES_MAX);
    if (!utf8_is_valid(text))
        return error_set(err, ERR_INVALID, "not UTF-8");
    while (str_split(&text, '\n', &line)) {
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        at.rest = line;
        at.line++;
        skip_blanks(&at);
        if (at.rest.len == 0 || next_is(&at, '#'))
            continue;
        if (count == TOML_PAIRS_MAX)
            return complain(&at, "too many lines");
        if (!read_pair(&at, &list[count]))
            return false;
        if (is_known(list, count, list[count].key))
            return complain(&at, "the key is there twice");
        count++;
    }
    *pairs = list;
    *n = count;
    return true;
}

static bool append_quoted(struct buf *out, struct str text, struct error *err)
{
    if (!buf_append(out, STR("\""), err))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        char piece[8] = {(char)c};
        int len = 1;

        if (c == '"' || c == '\\')
            len = snprintf(piece, sizeof piece, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            len = snprintf(piece, sizeof piece, "\\u%04x", c);
        if (!buf_append(out, (struct str){piece, (size_t)len}, err))
            return false;
    }
    return buf_append(out, STR("\""), err);
}

static bool key_is_bare(struct str key)
{
    for (size_t i = 0; i < key.len; i++) {
        if (!is_bare(key.ptr[i]))
            return false;
    }
    return key.len > 0;
}

bool toml_append(struct buf *out, const struct toml_pair *pair, struct error *err)
{
    bool is_plain = key_is_bare(pair->key);

    return (is_plain ? buf_append(out, pair->key, err) : append_quoted(out, pair->key, err)) &&
           buf_append(out, STR(" = "), err) && append_quoted(out, pair->value, err) &&
           buf_append(out, STR("\n"), err);
}
