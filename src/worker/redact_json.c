#include "base/encode.h"
#include "base/json.h"
#include "worker/redact.h"

/* One pass over JSON. */
struct pass {
    const struct redactor *redactor;
    struct buf *out;
    struct buf plain, clean; /* of one string */
    struct error *err;
};

static bool put(struct pass *pass, struct str bytes)
{
    return bytes.len == 0 || buf_append(pass->out, bytes, pass->err);
}

/* The end of the string that begins at `at`, after its closing quote; 0: it has none. */
static size_t string_end(struct str text, size_t at)
{
    for (size_t i = at + 1; i < text.len; i++) {
        if (text.ptr[i] == '\\')
            i++;
        else if (text.ptr[i] == '"')
            return i + 1;
    }
    return 0;
}

static bool read_unit(struct str text, size_t at, unsigned *unit)
{
    uint8_t bytes[2];

    if (text.len < at + 6 || text.ptr[at] != '\\' || text.ptr[at + 1] != 'u' ||
        !hex_decode((struct str){text.ptr + at + 2, 4}, bytes, sizeof bytes))
        return false;
    *unit = (unsigned)bytes[0] << 8 | bytes[1];
    return true;
}

static size_t utf8_put(unsigned point, char bytes[4])
{
    if (point < 0x80) {
        bytes[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        bytes[0] = (char)(0xc0 | point >> 6);
        bytes[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        bytes[0] = (char)(0xe0 | point >> 12);
        bytes[1] = (char)(0x80 | (point >> 6 & 0x3f));
        bytes[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    bytes[0] = (char)(0xf0 | point >> 18);
    bytes[1] = (char)(0x80 | (point >> 12 & 0x3f));
    bytes[2] = (char)(0x80 | (point >> 6 & 0x3f));
    bytes[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

/* A \u escape, or two that are one character. Halves alone become U+FFFD. */
static size_t decode_unit(struct str text, size_t at, char bytes[4], size_t *len)
{
    unsigned high, low, point;

    if (!read_unit(text, at, &high)) {
        bytes[0] = 'u';
        *len = 1;
        return 2;
    }
    point = high >= 0xd800 && high < 0xe000 ? 0xfffd : high;
    size_t used = 6;
    if (high >= 0xd800 && high < 0xdc00 && read_unit(text, at + 6, &low) && low >= 0xdc00 &&
        low < 0xe000) {
        point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        used = 12;
    }
    *len = utf8_put(point, bytes);
    return used;
}

static bool decode(struct pass *pass, struct str inside)
{
    static const char names[] = "bfnrt", meant[] = "\b\f\n\r\t";

    pass->plain.len = 0;
    for (size_t i = 0; i < inside.len;) {
        char bytes[4] = {inside.ptr[i]};
        size_t len = 1, used = 1;

        if (inside.ptr[i] == '\\' && i + 1 < inside.len) {
            const char *name = memchr(names, inside.ptr[i + 1], sizeof names - 1);
            used = 2;
            bytes[0] = inside.ptr[i + 1];
            if (name)
                bytes[0] = meant[name - names];
            if (inside.ptr[i + 1] == 'u')
                used = decode_unit(inside, i, bytes, &len);
        }
        if (!buf_append(&pass->plain, (struct str){bytes, len}, pass->err))
            return false;
        i += used;
    }
    return true;
}

static bool put_text(struct pass *pass, struct str text)
{
    struct json_writer json = json_begin(pass->out);

    json_text(&json, NULL, text);
    return json_end(&json, pass->err);
}

/* `token` with its quotes. What holds no secret stays as it was written. */
static bool put_string(struct pass *pass, struct str token)
{
    if (!decode(pass, (struct str){token.ptr + 1, token.len - 2}))
        return false;
    pass->clean.len = 0;
    if (pass->plain.len == 0)
        return put(pass, token);
    if (!redact_text(pass->redactor, buf_str(&pass->plain), &pass->clean, pass->err))
        return false;
    return str_equal(buf_str(&pass->plain), buf_str(&pass->clean))
               ? put(pass, token)
               : put_text(pass, buf_str(&pass->clean));
}

static bool is_mark(char c)
{
    return c == '{' || c == '}' || c == '[' || c == ']' || c == ',' || c == ':' || c == ' ' ||
           c == '\t' || c == '\n' || c == '\r';
}

/* A number, true, false or null. */
static bool put_word(struct pass *pass, struct str token)
{
    pass->clean.len = 0;
    if (!redact_text(pass->redactor, token, &pass->clean, pass->err))
        return false;
    return str_equal(token, buf_str(&pass->clean)) ? put(pass, token)
                                                   : put_text(pass, buf_str(&pass->clean));
}

static bool put_token(struct pass *pass, struct str text, size_t *at)
{
    size_t from = *at, to = from + 1;

    if (text.ptr[from] == '"') {
        to = string_end(text, from);
        if (!to)
            return error_set(pass->err, ERR_INVALID_JSON, "a string does not end");
        *at = to;
        return put_string(pass, (struct str){text.ptr + from, to - from});
    }
    bool is_word = !is_mark(text.ptr[from]);
    while (to < text.len && text.ptr[to] != '"' && is_mark(text.ptr[to]) != is_word)
        to++;
    *at = to;
    struct str token = {text.ptr + from, to - from};
    return is_word ? put_word(pass, token) : put(pass, token);
}

bool redact_json(const struct redactor *redactor, struct str text, struct buf *out,
                 struct error *err)
{
    struct pass pass = {redactor, out, {.max = out->max}, {.max = out->max}, err};
    bool fine = true;

    for (size_t at = 0; fine && at < text.len;)
        fine = put_token(&pass, text, &at);
    if (pass.plain.cap)
        bytes_wipe(pass.plain.bytes, pass.plain.cap);
    buf_finish(&pass.plain);
    buf_finish(&pass.clean);
    return fine;
}
