#include "worker/pack_cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/own.h"
#include "base/sha256.h"
#include "base/test.h"

enum { LEN = 1000 };

/* A place far away that counts how often it is asked. */
struct far {
    int n_put, n_opened;
    bool is_away;
};

static void bytes_of(char letter, char bytes[LEN], char digest[SHA256_HEX])
{
    memset(bytes, letter, LEN);
    sha256_of((struct str){bytes, LEN}, digest);
}

static bool far_put(void *arg, const struct seal_facts *facts UNUSED, int fd UNUSED,
                    struct error *err)
{
    struct far *far = arg;

    far->n_put++;
    return !far->is_away || error_set(err, ERR_UNAVAILABLE, "away");
}

/* It has everything that is one letter over and over. */
static bool far_open(void *arg, const char *digest, int *fd, struct error *err)
{
    struct far *far = arg;
    char bytes[LEN], real[SHA256_HEX];

    far->n_opened++;
    for (char letter = 'a'; letter <= 'z' && !far->is_away; letter++) {
        bytes_of(letter, bytes, real);
        if (strcmp(real, digest) != 0)
            continue;
        *fd = memfd_create("far", MFD_CLOEXEC);
        return *fd >= 0 && fd_write_all(*fd, (struct str){bytes, LEN}, err);
    }
    return error_set(err, ERR_NOT_FOUND, "not there");
}

struct rig {
    char folder[64];
    struct far far;
    struct object_backend behind, backend;
    struct cached_backend cached;
};

static bool rig_open(struct rig *rig, int64_t budget)
{
    struct error err;

    rig->behind = (struct object_backend){.arg = &rig->far, .put = far_put, .open = far_open};
    rig->cached = (struct cached_backend){.behind = &rig->behind};
    rig->backend = object_backend_of_cache(&rig->cached);
    return pack_cache_open(rig->folder, budget, &rig->cached.cache, &err);
}

static void rig_init(struct rig *rig, int64_t budget)
{
    *rig = (struct rig){.folder = "/tmp/helmr-cache-XXXXXX"};
    if (!mkdtemp(rig->folder) || !rig_open(rig, budget))
        abort();
}

static void rig_finish(struct rig *rig)
{
    struct error err;

    pack_cache_close(rig->cached.cache);
    if (!folder_remove(rig->folder, &err))
        abort();
}

/* Whether the object of a letter can be read, and is that. */
static bool has(struct rig *rig, char letter)
{
    char bytes[LEN], read_back[LEN], digest[SHA256_HEX];
    AUTO_FD int fd = -1;
    struct error err;

    bytes_of(letter, bytes, digest);
    return rig->backend.open(rig->backend.arg, digest, &fd, &err) &&
           pread(fd, read_back, LEN, 0) == LEN && memcmp(bytes, read_back, LEN) == 0;
}

static bool store(struct rig *rig, char letter)
{
    struct seal_facts facts = {.size = LEN};
    char bytes[LEN];
    AUTO_FD int fd = -1;
    struct error err;

    bytes_of(letter, bytes, facts.digest);
    return rig->backend.draft(rig->backend.arg, &fd, &err) &&
           fd_write_all(fd, (struct str){bytes, LEN}, &err) &&
           rig->backend.put(rig->backend.arg, &facts, fd, &err);
}

TEST(what_was_made_or_fetched_here_is_not_fetched_again)
{
    AUTO(rig_finish) struct rig rig;

    rig_init(&rig, MIB(1));
    CHECK(store(&rig, 'a') && rig.far.n_put == 1);
    CHECK(has(&rig, 'a') && rig.far.n_opened == 0);
    CHECK(has(&rig, 'b') && has(&rig, 'b') && rig.far.n_opened == 1);
    CHECK(rig.cached.n_fetched == 1);
    rig.far.is_away = true;
    CHECK(has(&rig, 'a') && has(&rig, 'b') && !has(&rig, 'c'));
    /* What could not be put is not there either. */
    CHECK(!store(&rig, 'd') && !has(&rig, 'd'));
}

TEST(another_process_finds_it_and_notices_damage)
{
    AUTO(rig_finish) struct rig rig;
    char bytes[LEN], digest[SHA256_HEX], path[256];

    rig_init(&rig, MIB(1));
    CHECK(store(&rig, 'a') && store(&rig, 'b'));
    bytes_of('b', bytes, digest);
    pack_cache_close(rig.cached.cache);
    snprintf(path, sizeof path, "%s/%s", rig.folder, digest);
    AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && pwrite(fd, "x", 1, 500) == 1);
    CHECK(rig_open(&rig, MIB(1)));
    CHECK(has(&rig, 'a') && rig.far.n_opened == 0);
    CHECK(has(&rig, 'b') && rig.far.n_opened == 1);
    CHECK(has(&rig, 'b') && rig.far.n_opened == 1);
}

TEST(what_was_not_used_for_longest_goes_first)
{
    AUTO(rig_finish) struct rig rig;

    rig_init(&rig, 5 * (int64_t)LEN);
    for (const char *letter = "abcde"; *letter; letter++) {
        CHECK(store(&rig, *letter));
        usleep(2000);
    }
    CHECK(has(&rig, 'a') && rig.far.n_opened == 0);
    usleep(2000);
    CHECK(store(&rig, 'f'));
    rig.far.is_away = true;
    CHECK(has(&rig, 'a') && has(&rig, 'f') && !has(&rig, 'b'));
}

TEST(what_is_no_object_is_thrown_away)
{
    AUTO(rig_finish) struct rig rig;
    char path[256];
    struct stat info;

    rig_init(&rig, MIB(1));
    pack_cache_close(rig.cached.cache);
    snprintf(path, sizeof path, "%s/leftover", rig.folder);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    CHECK(rig_open(&rig, MIB(1)));
    CHECK(stat(path, &info) != 0);
    struct error err;
    int fd = -1;
    CHECK(!rig.backend.open(rig.backend.arg, "../escape", &fd, &err) && err.code == ERR_INVALID);
}

TEST_MAIN()
