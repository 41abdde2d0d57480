#include "base/encode.h"

#include <stdint.h>

static const char hex_digits[] = "0123456789abcdef";
static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64url_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void hex_encode(struct str bytes, char *text)
{
    for (size_t i = 0; i < bytes.len; i++) {
        *text++ = hex_digits[(uint8_t)bytes.ptr[i] >> 4];
        *text++ = hex_digits[(uint8_t)bytes.ptr[i] & 15];
    }
    *text = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool hex_decode(struct str text, void *bytes, size_t len)
{
    uint8_t *out = bytes;

    if (text.len != 2 * len)
        return false;
    for (size_t i = 0; i < len; i++) {
        int high = hex_value(text.ptr[2 * i]), low = hex_value(text.ptr[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* Without padding; returns the length written. */
static size_t encode64(struct str bytes, const char *digits, char *text)
{
    size_t written = 0;
    uint32_t held = 0;
    int bits = 0;

    for (size_t i = 0; i < bytes.len; i++) {
        held = held << 8 | (uint8_t)bytes.ptr[i];
        for (bits += 8; bits >= 6; bits -= 6)
            text[written++] = digits[held >> (bits - 6) & 63];
    }
    if (bits)
        text[written++] = digits[held << (6 - bits) & 63];
    return written;
}

/* The value of each byte, or 64: looked up once per character of what may be megabytes. */
static void values64(const char *digits, uint8_t values[256])
{
    memset(values, 64, 256);
    for (uint8_t i = 0; i < 64; i++)
        values[(uint8_t)digits[i]] = i;
}

/* Of text without padding. Bits left over must be zero: two texts never mean the same bytes. */
static bool decode64(struct str text, const char *digits, uint8_t *bytes, size_t *len)
{
    size_t n = text.len / 4 * 3 + text.len % 4 * 3 / 4;
    size_t written = 0;
    uint32_t held = 0;
    int bits = 0;
    uint8_t values[256];

    if (text.len % 4 == 1 || n > *len)
        return false;
    values64(digits, values);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t value = values[(uint8_t)text.ptr[i]];

        if (value == 64)
            return false;
        held = held << 6 | value;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes[written++] = (uint8_t)(held >> bits);
        }
    }
    if (held & ((1U << bits) - 1))
        return false;
    *len = written;
    return true;
}

size_t base64_encoded_len(size_t len)
{
    return (len + 2) / 3 * 4;
}

void base64_encode(struct str bytes, char *text)
{
    size_t written = encode64(bytes, base64_digits, text);

    while (written % 4)
        text[written++] = '=';
}

bool base64_append(struct buf *out, struct str bytes, struct error *err)
{
    /* In pieces of whole groups, so that only the last is padded. */
    while (bytes.len) {
        char text[1024];
        struct str piece = {bytes.ptr, bytes.len < 768 ? bytes.len : 768};

        base64_encode(piece, text);
        if (!buf_append(out, (struct str){text, base64_encoded_len(piece.len)}, err))
            return false;
        bytes = (struct str){bytes.ptr + piece.len, bytes.len - piece.len};
    }
    return true;
}

bool base64_decode(struct str text, void *bytes, size_t *len)
{
    if (text.len % 4)
        return false;
    for (int i = 0; i < 2 && text.len && text.ptr[text.len - 1] == '='; i++)
        text.len--;
    return decode64(text, base64_digits, bytes, len);
}

size_t base64_decoded_max(size_t text_len)
{
    return text_len / 4 * 3 + 3;
}

void base64url_encode(struct str bytes, char *text)
{
    text[encode64(bytes, base64url_digits, text)] = '\0';
}

bool base64url_decode(struct str text, void *bytes, size_t *len)
{
    return decode64(text, base64url_digits, bytes, len);
}

static bool is_unreserved(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

bool percent_append(struct buf *out, struct str text, struct error *err)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = (uint8_t)text.ptr[i];
        char escaped[3] = {'%', "0123456789ABCDEF"[c >> 4], "0123456789ABCDEF"[c & 15]};
        struct str piece = is_unreserved(text.ptr[i]) ? (struct str){text.ptr + i, 1}
                                                      : (struct str){escaped, sizeof escaped};

        if (!buf_append(out, piece, err))
            return false;
    }
    return true;
}

bool percent_decode(struct str text, bool is_query, char *out, size_t *len)
{
    size_t written = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (c == '%') {
            uint8_t byte;

            if (text.len - i < 3 || !hex_decode((struct str){text.ptr + i + 1, 2}, &byte, 1))
                return false;
            c = (char)byte;
            i += 2;
        } else if (c == '+' && is_query) {
            c = ' ';
        }
        if (!c)
            return false;
        out[written++] = c;
    }
    *len = written;
    return true;
}

/* By the first byte; 0 for one that begins no character. */
static size_t utf8_announced(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first >= 0xf5)
        return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Overlong forms, surrogates and what lies past U+10FFFF. */
static bool utf8_is_forbidden(uint8_t first, uint8_t second)
{
    switch (first) {
    case 0xe0: return second < 0xa0;
    case 0xed: return second >= 0xa0;
    case 0xf0: return second < 0x90;
    case 0xf4: return second >= 0x90;
    default: return false;
    }
}

size_t utf8_len(struct str text)
{
    const uint8_t *byte = (const uint8_t *)text.ptr;
    size_t len = text.len ? utf8_announced(byte[0]) : 0;

    if (len > text.len)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
    }
    return len > 1 && utf8_is_forbidden(byte[0], byte[1]) ? 0 : len;
}

bool utf8_is_valid(struct str text)
{
    while (text.len) {
        size_t len = utf8_len(text);

        if (!len)
            return false;
        text = (struct str){text.ptr + len, text.len - len};
    }
    return true;
}

/* What stands for the first character of the text inside a JSON string. */
static struct str json_piece(struct str text, size_t *taken, char room[8])
{
    static const char short_forms[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    uint8_t c = (uint8_t)text.ptr[0];

    *taken = 1;
    for (const char *form = short_forms; *form; form += 2) {
        if (text.ptr[0] == form[0]) {
            room[0] = '\\';
            room[1] = form[1];
            return (struct str){room, 2};
        }
    }
    if (c < 0x20) {
        const char form[] = {'\\', 'u', '0', '0', hex_digits[c >> 4], hex_digits[c & 15]};

        memcpy(room, form, sizeof form);
        return (struct str){room, sizeof form};
    }

    size_t len = utf8_len(text);
    if (!len)
        return STR("\xef\xbf\xbd");
    *taken = len;
    return (struct str){text.ptr, len};
}

static bool is_plain(char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

bool json_quote(struct buf *out, struct str text, struct error *err)
{
    if (!buf_append(out, STR("\""), err))
        return false;
    while (text.len) {
        char room[8];
        size_t taken = 0;
        struct str piece;

        while (taken < text.len && is_plain(text.ptr[taken]))
            taken++;
        piece = taken ? (struct str){text.ptr, taken} : json_piece(text, &taken, room);
        if (!buf_append(out, piece, err))
            return false;
        text = (struct str){text.ptr + taken, text.len - taken};
    }
    return buf_append(out, STR("\""), err);
}
