#include "image/digest.h"

#include <openssl/evp.h>

#include "base/encode.h"
#include "base/own.h"

enum { HEX_LEN = 64, PREFIX_LEN = 7 };

/* OpenSSL fails here only for want of memory, which ends the process everywhere. */
static void must(int ok)
{
    if (ok != 1)
        abort();
}

void digest_init(struct digest_state *state)
{
    state->ctx = EVP_MD_CTX_new();
    must(state->ctx != NULL);
    must(EVP_DigestInit_ex(state->ctx, EVP_sha256(), NULL));
}

void digest_finish(struct digest_state *state)
{
    EVP_MD_CTX_free(state->ctx);
    state->ctx = NULL;
}

void digest_update(struct digest_state *state, struct str bytes)
{
    if (bytes.len)
        must(EVP_DigestUpdate(state->ctx, bytes.ptr, bytes.len));
}

void digest_take(struct digest_state *state, char text[DIGEST_TEXT])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int len = 0;

    must(EVP_DigestFinal_ex(state->ctx, sum, &len));
    must(EVP_DigestInit_ex(state->ctx, EVP_sha256(), NULL));
    memcpy(text, "sha256:", PREFIX_LEN);
    hex_encode((struct str){(const char *)sum, len}, text + PREFIX_LEN);
}

void digest_of(struct str bytes, char text[DIGEST_TEXT])
{
    AUTO(digest_finish) struct digest_state state;

    digest_init(&state);
    digest_update(&state, bytes);
    digest_take(&state, text);
}

bool digest_is_valid(struct str text)
{
    if (text.len != PREFIX_LEN + HEX_LEN || memcmp(text.ptr, "sha256:", PREFIX_LEN) != 0)
        return false;
    for (size_t i = PREFIX_LEN; i < text.len; i++) {
        char c = text.ptr[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return false;
    }
    return true;
}

const char *digest_hex(const char *digest)
{
    return digest + PREFIX_LEN;
}
