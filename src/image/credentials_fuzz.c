/* Any document: no crash, a password has its user's name, and nothing is had from a refused one. */
#include <assert.h>
#include <stdint.h>

#include "image/credentials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct credential credential = {0};
    struct error err;

    if (!credentials_read(text, STR("docker.io"), STR("library/node"), &credential, &err)) {
        assert(!secret_is_set(&credential.basic) && !secret_is_set(&credential.identity));
        return 0;
    }
    if (secret_is_set(&credential.basic)) {
        struct str basic = secret_reveal(&credential.basic);
        assert(memchr(basic.ptr, ':', basic.len));
    }
    credential_finish(&credential);
    return 0;
}
