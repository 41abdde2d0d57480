/* What a worker's upkeep keeps and drops, with a real server to ask. */
#include "worker/upkeep.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"
#include "image/store.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"

enum { HOUR_MS = 60 * 60 * 1000 };

struct host {
    struct test_worker joined;
    struct worker_settings settings;
    struct worker worker;
    struct arena arena;
};

static bool host_start(struct host *host, struct service *service)
{
    struct error err;

    *host = (struct host){.settings = {.work_dir = "/tmp/helmr-upkeep-XXXXXX"}};
    host->settings.artifact_cache_max_mib = 64;
    host->worker.settings = &host->settings;
    if (!mkdtemp(host->settings.work_dir) || !worker_join(&host->joined, service, "keeper") ||
        !image_store_open(host->settings.work_dir, &host->worker.images, &err))
        return false;
    link_init(&host->worker.link, service->url);
    host->worker.link.epoch = host->joined.epoch;
    link_set_bearer(&host->worker.link, str_of(host->joined.bearer), 600000);
    return true;
}

static void host_stop(struct host *host)
{
    struct error err;

    image_store_close(host->worker.images);
    link_finish(&host->worker.link);
    arena_finish(&host->arena);
    if (!folder_remove(host->settings.work_dir, &err))
        printf("# left behind: %s\n", host->settings.work_dir);
}

/* An image of `mib` random mebibytes, named and that old. */
static bool put_image(struct host *host, const char *reference, size_t mib, int64_t age_ms,
                      char digest[DIGEST_TEXT])
{
    const char *folder = arena_printf(&host->arena, "%s/root", host->settings.work_dir);
    AUTO_FREE char *bytes = alloc((mib << 20) + 1);
    AUTO_FD int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC), lock = -1;
    struct image_store *store = host->worker.images;
    struct image image;
    struct error err;

    return fd_read_full(random, bytes, mib << 20, &err) && directory_make(folder, 0755, &err) &&
           file_publish(arena_printf(&host->arena, "%s/file", folder),
                        (struct str){bytes, mib << 20}, 0644, &err) &&
           image_import_directory(store, reference, folder, NULL, digest, &err) &&
           image_find(store, digest, &host->arena, &image, &err) &&
           store_lock(store, &lock, &err) &&
           index_put(store, reference, digest, image.size, time_now_ms() - age_ms, &err);
}

static bool has(struct host *host, const char *reference)
{
    char digest[DIGEST_TEXT];
    struct error err;

    return index_find(host->worker.images, reference, digest, &err);
}

SERVICE_TEST(names_that_no_deployment_needs_go_and_others_stay)
{
    AUTO(host_stop) struct host host;
    char digest[DIGEST_TEXT];

    CHECK(host_start(&host, service));
    CHECK(put_image(&host, "helmr.local/p/i:1", 0, 2 * (int64_t)HOUR_MS, digest));
    CHECK(put_image(&host, "helmr.local/p/i:2", 0, 0, digest));
    CHECK(put_image(&host, "docker.io/library/base:1", 0, 2 * (int64_t)HOUR_MS, digest));
    upkeep_now(&host.worker);
    /* The second may be of a build whose end the server does not know yet. */
    CHECK(!has(&host, "helmr.local/p/i:1") && has(&host, "helmr.local/p/i:2"));
    CHECK(has(&host, "docker.io/library/base:1"));
}

SERVICE_TEST(over_the_budget_room_is_made_from_what_was_not_used_lately)
{
    AUTO(host_stop) struct host host;
    char base[DIGEST_TEXT], old[DIGEST_TEXT], used[DIGEST_TEXT];
    struct image image;
    struct error err;
    struct stat facts;

    CHECK(host_start(&host, service));
    CHECK(put_image(&host, "docker.io/library/base:1", 30, 0, base));
    CHECK(put_image(&host, "helmr.local/p/i:1", 30, 0, old));
    CHECK(put_image(&host, "helmr.local/p/i:2", 30, 0, used));
    const char *const images[] = {base, old};
    for (size_t i = 0; i < COUNT_OF(images); i++) {
        const struct timespec day[2] = {{.tv_sec = time_now_ms() / 1000 - 86400 - (i == 0)},
                                        {.tv_sec = time_now_ms() / 1000 - 86400 - (i == 0)}};
        CHECK(image_find(host.worker.images, images[i], &host.arena, &image, &err));
        CHECK(utimensat(host.worker.images->blobs_fd, image.layers[0].digest + 7, day, 0) == 0);
    }
    upkeep_now(&host.worker);
    CHECK(image_find(host.worker.images, old, &host.arena, &image, &err));
    CHECK(!store_look(host.worker.images, image.layers[0].digest, &facts));
    CHECK(image_find(host.worker.images, used, &host.arena, &image, &err));
    CHECK(store_look(host.worker.images, image.layers[0].digest, &facts));
    CHECK(image_find(host.worker.images, base, &host.arena, &image, &err));
    CHECK(store_look(host.worker.images, image.layers[0].digest, &facts));
}

TEST(the_budget_is_a_fifth_of_the_disk_unless_it_is_set)
{
    struct worker_settings settings = {.work_dir = "/tmp"};
    struct statvfs disk;
    struct error err;
    int64_t bytes = 0;

    CHECK(statvfs("/tmp", &disk) == 0 && upkeep_budget(&settings, &bytes, &err));
    CHECK(bytes / 20 / (int64_t)disk.f_frsize == (int64_t)disk.f_blocks / 100);
    settings.artifact_cache_max_mib = 3;
    CHECK(upkeep_budget(&settings, &bytes, &err) && bytes == 3 << 20);
}

TEST_MAIN()
