#include "worker/build_memo.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/own.h"
#include "base/sha256.h"
#include "image/disk.h"
#include "worker/build.h"

enum {
    FORMAT = 2,
    MANIFEST_MAX = 16 << 20,
    RECORD_MAX = MANIFEST_MAX + (4 << 20),
    KEPT_MAX = 256,
    LISTED_MAX = 4096
};

#define KEY_DOMAIN "helmr build 2"

static const struct json_field image_fields[] = {
    {"id", JSON_TEXT, offsetof(struct build_memo_image, id), REQUIRED, .max = 128},
    {"digest", JSON_TEXT, offsetof(struct build_memo_image, digest), REQUIRED, .max = 128},
    {0},
};

static const struct json_field memo_fields[] = {
    {"format", JSON_INTEGER, offsetof(struct build_memo, format), REQUIRED, .min = FORMAT,
     .max = FORMAT},
    {"manifest", JSON_RAW, offsetof(struct build_memo, manifest), REQUIRED, .max = MANIFEST_MAX},
    {"bundle", JSON_TEXT, offsetof(struct build_memo, bundle), REQUIRED, .max = SHA256_HEX_LEN},
    {"bundle_bytes", JSON_INTEGER, offsetof(struct build_memo, bundle_bytes), REQUIRED,
     .max = INT64_MAX},
    {"images", JSON_LIST, offsetof(struct build_memo, images), REQUIRED, .max = 1024,
     .fields = image_fields, .size = sizeof(struct build_memo_image)},
    {"imports", JSON_LIST, offsetof(struct build_memo, imports), OPTIONAL, .max = WIRE_IMPORTS_MAX,
     .fields = wire_import_fields, .size = sizeof(struct wire_import)},
    {0},
};

static bool may_remember(const struct build *build)
{
    return !build->grant->no_cache && build->grant->env.n == 0;
}

static const char *folder_of(struct build *build)
{
    return arena_printf(&build->arena, "%s/builds", build->worker->settings->work_dir);
}

static const char *path_of(struct build *build)
{
    const struct str parts[] = {
        STR(KEY_DOMAIN),
        build->grant->source.digest,
        str_of(build->worker->platform.digest),
        str_of(build->base.digest),
        str_of(build->worker->build_engine->name),
    };
    AUTO(sha256_finish) struct sha256 hash;
    char key[SHA256_HEX];

    sha256_init(&hash);
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        sha256_update(&hash, parts[i]);
        sha256_update(&hash, STR("\n"));
    }
    sha256_take(&hash, key);
    return arena_printf(&build->arena, "%s/%s.json", folder_of(build), key);
}

bool build_memo_find(struct build *build, struct build_memo *memo)
{
    AUTO_FREE char *text = NULL;
    struct error ignored;

    if (!may_remember(build))
        return false;
    const char *path = path_of(build);
    if (!file_read(path, RECORD_MAX, &text, &ignored) ||
        !json_read(str_of(text), memo_fields, memo, sizeof *memo, &build->arena, &ignored))
        return false;
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* the time of its last use */
    return sha256_hex_is_valid(memo->bundle);
}

/* Makes room by dropping the one whose last use is longest ago. */
static void drop_oldest(const char *path)
{
    AUTO_FD int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO(disk_names_finish) struct disk_names names = {0};
    const char *oldest = NULL;
    time_t least = 0;
    struct stat facts;
    struct error ignored;

    if (folder < 0 || !disk_list(folder, LISTED_MAX, &names, &ignored) || names.n <= KEPT_MAX)
        return;
    for (size_t i = 0; i < names.n; i++) {
        if (fstatat(folder, names.names[i], &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
            (oldest && facts.st_mtim.tv_sec >= least))
            continue;
        least = facts.st_mtim.tv_sec;
        oldest = names.names[i];
    }
    if (oldest)
        (void)unlinkat(folder, oldest, 0);
}

void build_memo_keep(struct build *build)
{
    AUTO(buf_finish) struct buf text = {.max = RECORD_MAX};
    struct json_writer writer = json_begin(&text);
    struct build_memo_image *images = arena_array(&build->arena, build->n_images, sizeof *images);
    const struct build_memo memo = {
        .format = FORMAT,
        .manifest = build->manifest,
        .bundle = build->memo.bundle,
        .bundle_bytes = build->memo.bundle_bytes,
        .images = {images, build->n_images},
        .imports = build->imports,
    };
    struct error err;

    if (!may_remember(build) || (build->is_recalled && build_memo_has_images(&build->memo, build)))
        return;
    for (size_t i = 0; i < build->n_images; i++)
        images[i] = (struct build_memo_image){build->images[i].id, build->images[i].digest};
    wire_write(&writer, NULL, memo_fields, &memo);
    if (!json_end(&writer, &err) || !directory_make(folder_of(build), 0700, &err) ||
        !file_publish(path_of(build), buf_str(&text), 0600, &err)) {
        log_warn("a build is not remembered", LOG_ERR(&err));
        return;
    }
    drop_oldest(folder_of(build));
}

void build_memo_forget(struct build *build)
{
    if (may_remember(build))
        (void)unlink(path_of(build));
}

bool build_memo_has_images(const struct build_memo *memo, const struct build *build)
{
    const struct build_memo_image *known = memo->images.items;
    size_t n_same = 0;

    for (size_t i = 0; i < build->n_images; i++)
        for (size_t k = 0; k < memo->images.n; k++)
            n_same += str_equal(known[k].id, build->images[i].id) &&
                      str_equal(known[k].digest, build->images[i].digest);
    return n_same == build->n_images && n_same == memo->images.n;
}
