/* For tests: frames as a client would send them, also such as none should. */
#pragma once

#include "base/str.h"

enum {
    FRAME_CONTINUATION = 0,
    FRAME_TEXT = 1,
    FRAME_BINARY = 2,
    FRAME_CLOSE = 8,
    FRAME_PING = 9,
    FRAME_PONG = 10,
    FRAME_FIN = 0x80,
};

/* Writes one masked frame; `first` is its first byte. Returns its length; room for 14 more bytes
 * than the text is needed. */
static inline size_t testing_frame(char *out, unsigned first, struct str text)
{
    static const unsigned char mask[4] = {0x11, 0xa2, 0x33, 0xc4};
    size_t at = 0;

    out[at++] = (char)first;
    if (text.len < 126) {
        out[at++] = (char)(0x80 | text.len);
    } else if (text.len < 65536) {
        out[at++] = (char)(0x80 | 126);
        out[at++] = (char)(text.len >> 8);
        out[at++] = (char)text.len;
    } else {
        out[at++] = (char)(0x80 | 127);
        for (int shift = 56; shift >= 0; shift -= 8)
            out[at++] = (char)((unsigned long long)text.len >> shift);
    }
    for (size_t i = 0; i < 4; i++)
        out[at++] = (char)mask[i];
    for (size_t i = 0; i < text.len; i++)
        out[at++] = (char)(text.ptr[i] ^ (char)mask[i % 4]);
    return at;
}
