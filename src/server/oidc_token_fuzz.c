#include "server/oidc_token.h"

#include <stdlib.h>

#include "base/own.h"

/* Of a key that nobody holds the other half of: whatever the bytes are, they are not signed. */
static const char set[] = "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\","
                          "\"x\":\"axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY\","
                          "\"y\":\"T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU\"}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A token under the set above, and a set for a token that is well-formed. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct id_claims claims;
    struct error err;
    const struct str bytes = {(const char *)data, len};
    if (id_token_read(bytes, (struct str){set, sizeof set - 1}, &arena, &claims, &err) ||
        id_token_read(STR("eyJhbGciOiJSUzI1NiJ9.e30.AAAA"), bytes, &arena, &claims, &err))
        abort();
    return 0;
}
