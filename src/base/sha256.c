#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/encode.h"
#include "base/own.h"

static void must(int ok)
{
    if (ok != 1)
        abort();
}

void sha256_init(struct sha256 *state)
{
    state->ctx = EVP_MD_CTX_new();
    must(state->ctx != NULL);
    must(EVP_DigestInit_ex(state->ctx, EVP_sha256(), NULL));
}

void sha256_finish(struct sha256 *state)
{
    EVP_MD_CTX_free(state->ctx);
    state->ctx = NULL;
}

void sha256_update(struct sha256 *state, struct str bytes)
{
    if (bytes.len)
        must(EVP_DigestUpdate(state->ctx, bytes.ptr, bytes.len));
}

void sha256_take(struct sha256 *state, char hex[SHA256_HEX])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int len = 0;

    must(EVP_DigestFinal_ex(state->ctx, sum, &len));
    must(EVP_DigestInit_ex(state->ctx, EVP_sha256(), NULL));
    hex_encode((struct str){(const char *)sum, len}, hex);
}

void sha256_of(struct str bytes, char hex[SHA256_HEX])
{
    AUTO(sha256_finish) struct sha256 state;

    sha256_init(&state);
    sha256_update(&state, bytes);
    sha256_take(&state, hex);
}

bool sha256_hex_is_valid(struct str text)
{
    if (text.len != SHA256_HEX_LEN)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return false;
    }
    return true;
}
