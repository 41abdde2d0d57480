/* What `helmr store verify` finds: each way an object can be damaged, and nothing else. */
#include "server/store_verify.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "blob/saver.h"
#include "server/object_store.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"

enum { LEN = 200 * 1000 };

struct found {
    struct service *service;
    int n;
    char last[BLOB_ID], class[16], text[256];
};

static void note(void *arg, const char *id, const char *class, const char *text)
{
    struct found *found = arg;

    found->n++;
    snprintf(found->last, sizeof found->last, "%s", id);
    snprintf(found->class, sizeof found->class, "%s", class);
    snprintf(found->text, sizeof found->text, "%s", text);
}

/* How many objects there are; -1 when the database could not be read. */
static int64_t verify(struct service *service, struct found *found)
{
    struct server *server = service->server;
    struct store_verify all = {.store = server->store,
                               .blobs = server->blobs,
                               .keys = &server->keys,
                               .complain = note,
                               .arg = found};
    struct error err;

    *found = (struct found){.service = service};
    return store_verify_all(&all, &err) && all.n_damaged == found->n ? all.n_objects : -1;
}

/* A manifest and its pack, in a domain. */
static bool save(struct test_worker *worker, enum seal_domain domain, struct saved *saved,
                 char pack[BLOB_ID])
{
    const struct object_backend backend = {.arg = worker, .put = worker_put_sealed};
    AUTO(key_ring_finish) struct key_ring ring = {0};
    char *bytes = arena_alloc(&worker->service->arena, LEN);
    struct str rest = {bytes, LEN};
    struct saver *saver = NULL;
    struct error err;

    for (size_t i = 0; i < LEN; i++)
        bytes[i] = (char)(i * i >> 7);
    if (domain == SEAL_STORE) {
        if (!keys_ring(&worker->service->server->keys, &ring, &err))
            return false;
    } else {
        static const char secret[SEAL_KEY_LEN] = "a key that only workers have....";
        key_ring_init(&ring, domain);
        if (!key_ring_add(&ring, (struct str){secret, sizeof secret}, &err))
            return false;
    }
    const struct saver_plan plan = {.backend = &backend, .keys = &ring.keys, .kind = "test"};
    saver_create(&plan, &saver);
    bool fine = saver_stream(saver, "one", saver_source_memory(&rest), &err) &&
                saver_end(saver, saved, &err) && saved->n_packs == 1;
    if (fine)
        snprintf(pack, BLOB_ID, "%s", saved->packs[0]);
    saver_destroy(saver);
    return fine;
}

static const char *path_of(struct service *service, const char *id)
{
    return arena_printf(&service->arena, "%s/store/blobs/%.2s/%s", service->data_dir, id, id);
}

static bool flip_last(struct service *service, const char *id)
{
    AUTO_FD int fd = open(path_of(service, id), O_RDWR | O_CLOEXEC);
    struct stat facts;
    char byte;

    if (fd < 0 || fstat(fd, &facts) != 0 || pread(fd, &byte, 1, facts.st_size - 30) != 1)
        return false;
    byte ^= 1;
    return pwrite(fd, &byte, 1, facts.st_size - 30) == 1;
}

SERVICE_TEST(a_sound_store_is_found_sound_and_each_damage_is_named)
{
    struct test_worker worker;
    struct saved ours, theirs;
    char our_pack[BLOB_ID], their_pack[BLOB_ID];
    struct found found;
    CHECK(worker_join(&worker, service, "one"));
    const char *blob = worker_put(&worker, "a layer of forty bytes, more or less");
    const char *lost = worker_put(&worker, "soon lost");
    CHECK(*blob && *lost && save(&worker, SEAL_STORE, &ours, our_pack));
    CHECK(save(&worker, SEAL_CHECKPOINT, &theirs, their_pack));
    CHECK(verify(service, &found) == 6 && found.n == 0);

    const struct {
        const char *id, *class;
    } all[] = {
        {blob,            "blob"    },
        {our_pack,        "pack"    },
        {ours.manifest,   "manifest"},
        {their_pack,      "pack"    },
        {theirs.manifest, "manifest"},
    };
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        CHECK(flip_last(service, all[i].id) && verify(service, &found) == 6 && found.n == 1);
        CHECK_STR(found.last, all[i].id);
        CHECK_STR(found.class, all[i].class);
        CHECK(flip_last(service, all[i].id));
    }
    CHECK(unlink(path_of(service, lost)) == 0 && verify(service, &found) == 6 && found.n == 1);
    CHECK_STR(found.last, lost);
    CHECK_STR(found.text, "the file is missing");

    /* Whole files, but not each in its place. */
    CHECK(rename(path_of(service, blob), path_of(service, lost)) == 0);
    CHECK(verify(service, &found) == 6 && found.n == 2);
}

TEST_MAIN()
