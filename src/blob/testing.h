/* What the tests of the store share: keys, memory as sink and source, pseudo-random bytes, a store
 * in a folder that goes away.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/own.h"
#include "blob/blob.h"
#include "blob/seal_reader.h"
#include "blob/seal_writer.h"

static struct seal_key test_key_list[3];

/* Three keys; a test takes those it wants from `first` on. */
static inline struct seal_keys test_keys(size_t first, size_t n)
{
    for (size_t i = 0; i < COUNT_OF(test_key_list); i++) {
        uint8_t bytes[SEAL_KEY_LEN];
        memset(bytes, (int)i + 1, sizeof bytes);
        seal_key_init(&test_key_list[i], bytes);
    }
    return (struct seal_keys){SEAL_STORE, test_key_list + first, n};
}

static inline bool test_write_buf(void *arg, struct str bytes, struct error *err)
{
    return buf_append(arg, bytes, err);
}

static inline struct seal_sink test_sink(struct buf *buf)
{
    *buf = (struct buf){.max = MIB(256)};
    return (struct seal_sink){test_write_buf, buf};
}

/* Bytes that do not compress, the same for the same seed. */
static inline void test_noise(uint64_t seed, uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(seed >> 56);
    }
}

/* Bytes that do. */
static inline void test_prose(uint64_t seed, uint8_t *bytes, size_t len)
{
    test_noise(seed, bytes, len);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)("helmr runs on"[bytes[i] % 13]);
}

/* Of the one store a test has. */
static char test_folder[64];

static inline struct blob_store *test_store_open(void)
{
    struct error err;
    struct blob_store *store = NULL;

    return blob_store_open(test_folder, &store, &err) ? store : NULL;
}

static inline struct blob_store *test_store_make(void)
{
    snprintf(test_folder, sizeof test_folder, "/tmp/helmr-blob-XXXXXX");
    return mkdtemp(test_folder) ? test_store_open() : NULL;
}

static inline void test_store_drop(struct blob_store *store)
{
    struct error err;

    blob_store_close(store);
    if (!folder_remove(test_folder, &err))
        printf("# %s\n", err.text);
}
