/* How fast memory is sealed, saved into the store and loaded back, for the figures seal, save and
 * load. Sealing is zstd -1 and AEAD record by record; saving also cuts chunks, hashes and packs.
 *
 *   seal_speed PID     the memory of that process: its private writable pages that are not zero
 *   seal_speed FILE    the bytes of that file
 *
 * One JSON object goes to stdout; all times are of the processor, the best of some rounds. Beside
 * each stands what cannot be saved on: zstd -1 of the same bytes, then AES-256-GCM of the result.
 */
#include <ctype.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <time.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/own.h"
#include "blob/loader.h"
#include "blob/saver.h"

enum { ROUNDS = 9, PAGE = 4096, STEP = 1 << 20, BYTES_MAX = 64 << 20, OBJECTS_MAX = 64 };

static double processor_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Objects in memory: no disk is measured. */
static struct shelf {
    struct object {
        char digest[SHA256_HEX];
        int fd;
    } objects[OBJECTS_MAX];
    size_t n;
} shelf;

static bool shelf_put(void *arg, const struct seal_facts *facts, int fd, struct error *err)
{
    struct shelf *to = arg;

    if (to->n == OBJECTS_MAX)
        return error_set(err, ERR_TOO_LARGE, "there are too many objects");
    struct object *object = &to->objects[to->n++];
    memcpy(object->digest, facts->digest, SHA256_HEX);
    object->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return object->fd >= 0 || error_errno(err, "keep an object");
}

static bool shelf_open(void *arg, const char *digest, int *fd, struct error *err)
{
    struct shelf *from = arg;

    for (size_t i = 0; i < from->n; i++) {
        if (strcmp(from->objects[i].digest, digest) == 0) {
            *fd = fcntl(from->objects[i].fd, F_DUPFD_CLOEXEC, 0);
            return *fd >= 0 || error_errno(err, "open an object");
        }
    }
    return error_set(err, ERR_NOT_FOUND, "there is no such object");
}

static void shelf_clear(void)
{
    while (shelf.n > 0)
        close(shelf.objects[--shelf.n].fd);
}

static const struct object_backend backend = {&shelf, NULL, shelf_put, shelf_open};

static bool count(void *arg, struct str bytes, struct error *err)
{
    (void)err;
    *(uint64_t *)arg += bytes.len;
    return true;
}

struct times {
    double seal, save, load, anchor, anchor_back;
    uint64_t sealed, stored, anchor_stored;
};

static void keep_best(double *best, double begun)
{
    double took = processor_seconds() - begun;

    if (*best == 0 || took < *best)
        *best = took;
}

static bool time_seal(const struct seal_keys *keys, struct str bytes, struct times *times,
                      struct error *err)
{
    AUTO(seal_writer_finish) struct seal_writer writer = {0};
    struct seal_plan plan = {keys, SEAL_BLOB, .level = 1};

    times->sealed = 0;
    double begun = processor_seconds();
    bool fine = seal_writer_begin(&writer, &plan, (struct seal_sink){count, &times->sealed}, err) &&
                seal_writer_add(&writer, bytes, err) && seal_writer_end(&writer, err);
    keep_best(&times->seal, begun);
    return fine;
}

static bool time_store(const struct seal_keys *keys, struct str bytes, struct times *times,
                       struct error *err)
{
    struct saver_plan plan = {.backend = &backend,
                              .keys = keys,
                              .kind = "bench",
                              .sizes = chunk_sizes_memory,
                              .level = 1};
    struct saver *saver;
    struct loader *loader = NULL;
    struct saved saved;
    uint64_t len = 0;
    struct str rest = bytes;

    shelf_clear();
    double begun = processor_seconds();
    saver_create(&plan, &saver);
    bool fine = saver_stream(saver, "memory", saver_source_memory(&rest), err) &&
                saver_end(saver, &saved, err);
    saver_destroy(saver);
    keep_best(&times->save, begun);
    if (!fine)
        return false;
    times->stored = saved.stored;

    begun = processor_seconds();
    fine = loader_create(&backend, keys, saved.manifest, &loader, err) &&
           loader_stream(loader, "memory", (struct seal_sink){count, &len}, err);
    loader_destroy(loader);
    keep_best(&times->load, begun);
    return fine && (len == bytes.len || error_set(err, ERR_DAMAGED, "bytes are missing"));
}

static bool crypt_bytes(EVP_CIPHER_CTX *ctx, bool encrypts, uint8_t *bytes, size_t len)
{
    static const uint8_t key[32], nonce[12];
    int done = 0;

    if (!EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce, encrypts))
        return false;
    for (size_t at = 0; at < len; at += STEP) {
        int step = len - at < STEP ? (int)(len - at) : STEP;
        if (!EVP_CipherUpdate(ctx, bytes + at, &done, bytes + at, step))
            return false;
    }
    return true;
}

static bool time_anchor(struct str bytes, struct times *times, struct error *err)
{
    size_t room = ZSTD_compressBound(bytes.len);
    AUTO_FREE uint8_t *packed = alloc(room);
    AUTO_FREE uint8_t *back = alloc(bytes.len);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();

    double begun = processor_seconds();
    size_t len = ZSTD_compress(packed, room, bytes.ptr, bytes.len, 1);
    bool fine = ctx && !ZSTD_isError(len) && crypt_bytes(ctx, true, packed, len);
    keep_best(&times->anchor, begun);

    begun = processor_seconds();
    fine = fine && crypt_bytes(ctx, false, packed, len) &&
           ZSTD_decompress(back, bytes.len, packed, len) == bytes.len;
    keep_best(&times->anchor_back, begun);
    times->anchor_stored = len;
    EVP_CIPHER_CTX_free(ctx);
    return fine || error_set(err, ERR_INTERNAL, "zstd or AES failed");
}

static bool add_pages(struct buf *memory, int fd, uint64_t from, uint64_t to, struct error *err)
{
    char page[PAGE];

    for (; from < to && memory->len + PAGE <= memory->max; from += PAGE) {
        if (pread(fd, page, PAGE, (off_t)from) == PAGE &&
            !chunk_is_zero((struct str){page, PAGE}) &&
            !buf_append(memory, (struct str){page, PAGE}, err))
            return false;
    }
    return true;
}

static bool read_memory(const char *pid, struct buf *memory, struct error *err)
{
    char path[64];
    AUTO_FREE char *maps = NULL;

    snprintf(path, sizeof path, "/proc/%.16s/maps", pid);
    if (!file_read(path, MIB(4), &maps, err))
        return false;
    snprintf(path, sizeof path, "/proc/%.16s/mem", pid);
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "open %s", path);
    struct str rest = str_of(maps), line;
    while (str_split(&rest, '\n', &line)) {
        unsigned long from, to;
        char mode[5];
        if (line.len > 0 && sscanf(line.ptr, "%lx-%lx %4s", &from, &to, mode) == 3 &&
            strcmp(mode, "rw-p") == 0 && !add_pages(memory, fd, from, to, err))
            return false;
    }
    return true;
}

static bool read_whole(const char *path, struct buf *memory, struct error *err)
{
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    static char step[STEP];
    ssize_t got;

    if (fd < 0)
        return error_errno(err, "open %s", path);
    while ((got = read(fd, step, sizeof step)) > 0) {
        if (!buf_append(memory, (struct str){step, (size_t)got}, err))
            return false;
    }
    return got == 0 || error_errno(err, "read %s", path);
}

static bool measure(struct str bytes, struct times *times, struct error *err)
{
    struct seal_key key;
    uint8_t secret[SEAL_KEY_LEN];

    random_bytes(secret, sizeof secret);
    seal_key_init(&key, secret);
    struct seal_keys keys = {SEAL_CHECKPOINT, &key, 1};
    for (int i = 0; i < ROUNDS; i++) {
        if (!time_seal(&keys, bytes, times, err) || !time_store(&keys, bytes, times, err) ||
            !time_anchor(bytes, times, err))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    AUTO(buf_finish) struct buf memory = {.max = BYTES_MAX};
    struct times times = {0};
    struct error err;

    if (argc != 2) {
        fprintf(stderr, "usage: seal_speed PID|FILE\n");
        return 2;
    }
    bool is_pid = isdigit((unsigned char)argv[1][0]);
    if (!(is_pid ? read_memory : read_whole)(argv[1], &memory, &err) ||
        !measure(buf_str(&memory), &times, &err)) {
        fprintf(stderr, "seal_speed: %s\n", err.text);
        return 1;
    }
    printf("{\"bytes\":%zu,\"seal\":%.6f,\"save\":%.6f,\"load\":%.6f,\"anchor\":%.6f,"
           "\"anchor_back\":%.6f,\"sealed\":%llu,\"stored\":%llu,\"anchor_stored\":%llu}\n",
           memory.len, times.seal, times.save, times.load, times.anchor, times.anchor_back,
           (unsigned long long)times.sealed, (unsigned long long)times.stored,
           (unsigned long long)times.anchor_stored);
    shelf_clear();
    return 0;
}
