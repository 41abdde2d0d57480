/* Help for tests of pull and push: stores in a folder, an image to move, and what must hold of a
 * store whatever happened: every blob hashes to its name.
 */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/sha256.h"
#include "image/registry_line.h"
#include "image/store.h"
#include "image/testing.h"

struct registry_test {
    struct testing testing;
    struct image_store *here, *there; /* the image's origin, and an empty store */
    struct registries *registries;
    struct image_transfer transfer;
    char digest[DIGEST_TEXT]; /* of the image in `here`, named local/thing:1 */
    char lines[4096];         /* the last of progress */
    size_t n_lines;
    struct error err;
};

static inline void registry_test_line(void *arg, const char *line)
{
    struct registry_test *test = arg;

    test->n_lines++;
    (void)snprintf(test->lines, sizeof test->lines, "%s", line);
}

/* Settings may be changed between tests; waits are short, so that failing is quick. */
static inline bool registry_test_settings(struct registry_test *test,
                                          const struct registry_settings *settings)
{
    registries_close(TAKE(test->registries));
    if (!registries_open(settings, &test->registries, &test->err))
        return false;
    test->registries->pace = (struct registry_pace){20000, 1, 20};
    test->transfer = (struct image_transfer){
        .registries = test->registries,
        .progress = registry_test_line,
        .arg = test,
    };
    return true;
}

static inline bool registry_test_init(struct registry_test *test)
{
    *test = (struct registry_test){0};
    testing_init(&test->testing);
    return testing_sh(&test->testing, "mkdir here there tree tree/etc\n"
                                      "echo hello >tree/etc/motd\n"
                                      "head -c 2300000 /dev/urandom >tree/noise") &&
           image_store_open(testing_path(&test->testing, "here"), &test->here, &test->err) &&
           image_store_open(testing_path(&test->testing, "there"), &test->there, &test->err) &&
           image_import_directory(test->here, "local.test/thing:1",
                                  testing_path(&test->testing, "tree"), NULL, test->digest,
                                  &test->err) &&
           registry_test_settings(test, &(struct registry_settings){0});
}

static inline void registry_test_finish(struct registry_test *test)
{
    registries_close(test->registries);
    image_store_close(test->here);
    image_store_close(test->there);
    testing_finish(&test->testing);
}

#define REGISTRY_TEST(name)                                     \
    AUTO(registry_test_finish) struct registry_test name = {0}; \
    if (!registry_test_init(&(name)))                           \
    abort()

static inline bool registry_test_blob_is_true(struct image_store *store, const char *name)
{
    AUTO_FREE char *path = NULL, *bytes = NULL;
    char hex[SHA256_HEX];
    struct error err;
    struct stat facts;

    if (asprintf(&path, "%s/%s", store->blobs, name) < 0 || stat(path, &facts) != 0)
        return false;
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    bytes = alloc((size_t)facts.st_size + 1);
    if (fd < 0 || !fd_read_full(fd, bytes, (size_t)facts.st_size, &err))
        return false;
    sha256_of((struct str){bytes, (size_t)facts.st_size}, hex);
    return strcmp(hex, name) == 0;
}

/* Every blob is what its name says; *references are counted. */
static inline bool registry_test_store_is_sound(struct image_store *store, size_t *references)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    AUTO(arena_finish) struct arena arena = {0};
    const struct image_entry *entries;
    struct error err;

    if (!disk_list(store->blobs_fd, 1000, &names, &err) ||
        !image_list(store, &arena, &entries, references, &err))
        return false;
    for (size_t i = 0; i < names.n; i++)
        if (!registry_test_blob_is_true(store, names.names[i]))
            return false;
    return true;
}

/* A port that was free a moment ago. */
static inline int registry_test_port(void)
{
    AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t len = sizeof address;

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        abort();
    return ntohs(address.sin_port);
}
