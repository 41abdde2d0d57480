#include "base/id.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/encode.h"
#include "base/time.h"

void random_bytes(void *bytes, size_t len)
{
    char *at = bytes;

    while (len) {
        ssize_t got = getrandom(at, len, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            abort();
        at += got;
        len -= (size_t)got;
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t last_ms;
static unsigned last_count;

/* The pair only ever grows: a clock that stands still or steps back is carried by the count. */
static void next_stamp(unsigned random, int64_t *ms, unsigned *count)
{
    int64_t now = time_now_ms();

    pthread_mutex_lock(&lock);
    if (now > last_ms) {
        last_ms = now;
        last_count = random & 0x7ff;
    } else if (++last_count > 0xfff) {
        last_ms++;
        last_count = random & 0x7ff;
    }
    *ms = last_ms;
    *count = last_count;
    pthread_mutex_unlock(&lock);
}

static const uint8_t groups[] = {4, 2, 2, 2, 6};

void id_from_bytes(const uint8_t bytes[ID_BYTES], char text[ID_TEXT])
{
    const char *from = (const char *)bytes;

    for (size_t i = 0; i < sizeof groups; i++) {
        if (i)
            *text++ = '-';
        hex_encode((struct str){from, groups[i]}, text);
        from += groups[i];
        text += 2 * (size_t)groups[i];
    }
}

void id_make(char text[ID_TEXT])
{
    uint8_t bytes[ID_BYTES];
    int64_t ms;
    unsigned count;

    random_bytes(bytes, sizeof bytes);
    next_stamp((unsigned)bytes[0] << 8 | bytes[1], &ms, &count);
    for (int i = 0; i < 6; i++)
        bytes[i] = (uint8_t)(ms >> (40 - 8 * i));
    bytes[6] = (uint8_t)(0x70 | count >> 8);
    bytes[7] = (uint8_t)count;
    bytes[8] = (uint8_t)(0x80 | (bytes[8] & 0x3f));
    id_from_bytes(bytes, text);
}

static bool is_hyphen_place(size_t at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

bool id_parse(struct str input, char text[ID_TEXT])
{
    char lower[ID_TEXT] = {0};

    if (input.len != ID_LEN)
        return false;
    for (size_t i = 0; i < ID_LEN; i++) {
        char c = input.ptr[i];

        if (c >= 'A' && c <= 'F')
            c = (char)(c - 'A' + 'a');
        bool is_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        if (is_hyphen_place(i) ? c != '-' : !is_hex)
            return false;
        lower[i] = c;
    }
    memcpy(text, lower, sizeof lower);
    return true;
}

void id_to_bytes(const char *id, uint8_t bytes[ID_BYTES])
{
    for (size_t i = 0; i < sizeof groups; i++) {
        if (!hex_decode((struct str){id, 2 * (size_t)groups[i]}, bytes, groups[i]))
            abort();
        id += 2 * (size_t)groups[i] + 1;
        bytes += groups[i];
    }
}

const char *id_short(const char *id)
{
    size_t len = strlen(id);

    return len > 12 ? id + len - 12 : id;
}
