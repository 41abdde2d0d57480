#include "image/digest.h"

enum { PREFIX_LEN = 7 };

void digest_take(struct sha256 *state, char text[DIGEST_TEXT])
{
    memcpy(text, "sha256:", PREFIX_LEN);
    sha256_take(state, text + PREFIX_LEN);
}

void digest_of(struct str bytes, char text[DIGEST_TEXT])
{
    memcpy(text, "sha256:", PREFIX_LEN);
    sha256_of(bytes, text + PREFIX_LEN);
}

bool digest_is_valid(struct str text)
{
    return text.len > PREFIX_LEN && memcmp(text.ptr, "sha256:", PREFIX_LEN) == 0 &&
           sha256_hex_is_valid((struct str){text.ptr + PREFIX_LEN, text.len - PREFIX_LEN});
}

const char *digest_hex(const char *digest)
{
    return digest + PREFIX_LEN;
}
