/* Whatever a guest sends: nothing that passes is for an address that is blocked, but for questions
 * to the gateway, and nothing beyond the frame is looked at. */
#include "engine/net/frames.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ETHERNET = 14, ADDRESS = ETHERNET + 16, IPV4_HEAD = 20, TYPE_IPV4 = 0x0800 };

static const struct policy *policy_get(void)
{
    static struct policy policy;
    struct error err;

    if (policy.denied.n == 0 && !policy_init(&policy, NULL, NULL, &err))
        abort();
    return &policy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Of just this length, so that a sanitizer sees what reads beyond it. */
    AUTO_FREE uint8_t *frame = alloc(size ? size : 1);

    memcpy(frame, data, size);
    bool passes = frame_may_pass(policy_get(), frame, size);
    if (!passes || (frame[12] << 8 | frame[13]) != TYPE_IPV4)
        return 0;
    if (size < ETHERNET + IPV4_HEAD)
        abort();
    const uint32_t to = (uint32_t)frame[ADDRESS] << 24 | (uint32_t)frame[ADDRESS + 1] << 16 |
                        (uint32_t)frame[ADDRESS + 2] << 8 | frame[ADDRESS + 3];
    const bool is_gateway = to == 0xc6120001;
    if (!is_gateway && policy_blocks(policy_get(), to))
        abort();
    return 0;
}
