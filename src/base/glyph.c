#include "base/glyph.h"

#include <stdint.h>

#include "base/attr.h"
#include "base/encode.h"

struct range {
    uint32_t first, last;
};

static const struct range harmful[] = {
    {0x00,   0x1f  },
    {0x7f,   0x9f  },
    {0x2028, 0x202e},
    {0x2066, 0x2069},
};

static const struct range marks[] = {
    {0x300,  0x36f },
    {0x200b, 0x200f},
    {0x20d0, 0x20ff},
    {0xfe00, 0xfe0f},
};

static const struct range wide[] = {
    {0x1100,  0x115f },
    {0x2e80,  0xa4cf },
    {0xac00,  0xd7a3 },
    {0xf900,  0xfaff },
    {0xfe30,  0xfe6f },
    {0xff00,  0xff60 },
    {0x1f300, 0x1faff},
    {0x20000, 0x3fffd},
};

static bool is_within(uint32_t code, const struct range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    }
    return false;
}

static uint32_t code_point(struct str character)
{
    static const uint8_t mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (uint8_t)character.ptr[0] & mask[character.len];

    for (size_t i = 1; i < character.len; i++)
        code = code << 6 | ((uint8_t)character.ptr[i] & 0x3f);
    return code;
}

bool glyph_next(struct str *rest, struct glyph *glyph)
{
    size_t len = utf8_len(*rest);

    if (rest->len == 0)
        return false;
    *glyph = (struct glyph){
        {rest->ptr, len ? len : 1},
        1, len == 0
    };
    *rest = (struct str){rest->ptr + glyph->bytes.len, rest->len - glyph->bytes.len};
    if (len == 0)
        return true;

    uint32_t code = code_point(glyph->bytes);

    glyph->is_harmful = is_within(code, harmful, COUNT_OF(harmful));
    if (is_within(code, marks, COUNT_OF(marks)))
        glyph->columns = 0;
    else if (is_within(code, wide, COUNT_OF(wide)))
        glyph->columns = 2;
    return true;
}

size_t glyph_width(struct str text)
{
    struct glyph glyph;
    size_t width = 0;

    while (glyph_next(&text, &glyph))
        width += glyph.columns;
    return width;
}

struct str glyph_cut(struct str text, size_t columns)
{
    struct str rest = text;
    struct glyph glyph;
    size_t width = 0, len = 0;

    while (glyph_next(&rest, &glyph) && width + glyph.columns <= columns) {
        width += glyph.columns;
        len += glyph.bytes.len;
    }
    return (struct str){text.ptr, len};
}
