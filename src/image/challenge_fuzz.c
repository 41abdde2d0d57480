/* Any header line: no crash, values end inside their room, and a refusal changes nothing. */
#include <assert.h>
#include <stdint.h>

#include "image/challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct challenge challenge = {0};

    if (!challenge_read((struct str){(const char *)data, size}, &challenge)) {
        assert(challenge.scheme == CHALLENGE_NONE && !challenge.realm[0]);
        return 0;
    }
    assert(strnlen(challenge.realm, sizeof challenge.realm) < sizeof challenge.realm);
    assert(strnlen(challenge.service, sizeof challenge.service) < sizeof challenge.service);
    assert(challenge.scheme != CHALLENGE_NONE || !challenge.realm[0]);
    return 0;
}
