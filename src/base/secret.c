#include "base/secret.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Pages of its own: locks and dump marks are per page, and a neighbour's unlock would undo ours. */
struct secret_bytes {
    size_t len, mapped;
    char bytes[];
};

void bytes_wipe(void *bytes, size_t len)
{
    if (len)
        explicit_bzero(bytes, len);
}

struct secret secret_create(struct str bytes)
{
    size_t mapped = (sizeof(struct secret_bytes) + bytes.len + 4095) / 4096 * 4096;
    struct secret_bytes *hidden =
        mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (hidden == MAP_FAILED)
        abort();

    /* Best effort: RLIMIT_MEMLOCK may be small, and a usable secret beats a refusal to start. */
    (void)!mlock(hidden, mapped);
    (void)!madvise(hidden, mapped, MADV_DONTDUMP);

    hidden->len = bytes.len;
    hidden->mapped = mapped;
    if (bytes.len)
        memcpy(hidden->bytes, bytes.ptr, bytes.len);
    return (struct secret){hidden};
}

void secret_finish(struct secret *secret)
{
    if (secret->hidden) {
        size_t mapped = secret->hidden->mapped;

        bytes_wipe(secret->hidden, mapped);
        munmap(secret->hidden, mapped);
    }
    secret->hidden = NULL;
}

bool secret_is_set(const struct secret *secret)
{
    return secret->hidden;
}

struct str secret_reveal(const struct secret *secret)
{
    if (!secret->hidden)
        return (struct str){0};
    return (struct str){secret->hidden->bytes, secret->hidden->len};
}

bool bytes_equal_constant_time(struct str a, struct str b)
{
    if (a.len != b.len)
        return false;

    volatile unsigned char difference = 0;

    for (size_t i = 0; i < a.len; i++)
        difference |= (unsigned char)(a.ptr[i] ^ b.ptr[i]);
    return difference == 0;
}

bool secret_equals(const struct secret *secret, struct str other)
{
    return secret->hidden && bytes_equal_constant_time(secret_reveal(secret), other);
}
