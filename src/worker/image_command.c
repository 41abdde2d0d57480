/* `helmr image bootstrap` and `helmr image list`, and what the other image commands share. */
#include "worker/image_command.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "base/table.h"
#include "image/config.h"
#include "worker/commands.h"

enum { OUTPUT_MAX = 16 * 1024 * 1024, NAMES_SHOWN = 3, SHORT_DIGEST = 19 };

static const char default_image[] = "node:24-bookworm-slim";

bool image_host_open(const struct invocation *invocation, struct image_host *host,
                     struct error *err)
{
    *host = (struct image_host){0};
    if (!worker_settings_read_host(invocation, &host->settings, err))
        return false;
    if (directory_make(host->settings.work_dir, 0700, err) &&
        image_store_open(host->settings.work_dir, &host->store, err))
        return true;
    worker_settings_finish(&host->settings);
    return false;
}

void image_host_finish(struct image_host *host)
{
    image_store_close(host->store);
    worker_settings_finish(&host->settings);
    *host = (struct image_host){0};
}

struct image_meter image_meter(bool is_wordy)
{
    return (struct image_meter){.is_terminal = isatty(STDERR_FILENO), .is_wordy = is_wordy};
}

void image_meter_line(void *arg, const char *line)
{
    struct image_meter *meter = arg;

    if (meter->is_terminal)
        fprintf(stderr, "\r\033[K%s", line);
    else if (meter->is_wordy)
        fprintf(stderr, "%s\n", line);
    meter->is_open = true;
}

void image_meter_end(struct image_meter *meter)
{
    if (meter->is_terminal && meter->is_open)
        fprintf(stderr, "\r\033[K");
    meter->is_open = false;
}

struct str image_size_text(int64_t bytes, bool is_terminal, struct arena *arena)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes / 1024;
    size_t unit = 0;

    if (!is_terminal)
        return str_of(arena_printf(arena, "%lld", (long long)bytes));
    for (; size >= 1024 && unit + 1 < COUNT_OF(units); unit++)
        size /= 1024;
    return str_of(arena_printf(arena, "%.1f %s", size, units[unit]));
}

bool image_print_json(const struct buf *text)
{
    return fwrite(text->bytes, 1, text->len, stdout) == text->len && putchar('\n') != EOF;
}

/* Made here, or taken out of a file that another host exported. */
static bool obtain(const struct invocation *invocation, struct image_store *store,
                   const char *reference, struct image_meter *meter, char digest[DIGEST_TEXT],
                   struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const char *from = invocation_value(invocation, "from");
    bool force = invocation_has(invocation, "force");
    AUTO_FD int fd = -1;
    struct image image;

    if (!from)
        return image_bootstrap(store, reference, force, image_meter_line, meter, digest, err);
    if (!force && image_find(store, reference, &arena, &image, err)) {
        memcpy(digest, image.digest, DIGEST_TEXT);
        return true;
    }
    fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "%s", from);
    return image_load(store, reference, fd, digest, err) || error_wrap(err, "%s", from);
}

bool image_bootstrap_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(image_host_finish) struct image_host host = {0};
    const char *reference = invocation->n_args ? invocation->args[0] : default_image;
    struct image_meter meter = image_meter(true);
    char digest[DIGEST_TEXT];

    *exit_code = 0;
    /* Its lines are worth keeping: each is a stage of minutes. */
    meter.is_terminal = false;
    if (!image_host_open(invocation, &host, err) ||
        !obtain(invocation, host.store, reference, &meter, digest, err))
        return false;
    if (invocation_has(invocation, "json"))
        printf("{\"reference\":\"%s\",\"digest\":\"%s\"}\n", reference, digest);
    else
        printf("%s\t%s\n", reference, digest);
    return true;
}

/* An image, and what it consists of: config and layers, or nothing when it cannot be read. */
struct listed {
    const struct image_entry *entry;
    struct manifest_blobs blobs;
};

static size_t n_layers(const struct listed *image)
{
    return image->blobs.n > BLOB_LAYERS ? image->blobs.n - BLOB_LAYERS : 0;
}

static bool is_built_on(const struct listed *image, const struct listed *base)
{
    if (strcmp(image->entry->digest, base->entry->digest) == 0)
        return true;
    if (n_layers(base) == 0 || n_layers(image) < n_layers(base))
        return false;
    for (size_t i = BLOB_LAYERS; i < base->blobs.n; i++)
        if (strcmp(image->blobs.items[i].digest, base->blobs.items[i].digest) != 0)
            return false;
    return true;
}

static struct str deployment_of(const struct listed *image)
{
    static const size_t skipped = sizeof "helmr.local/" - 1;
    struct str name = image->entry->reference;

    return (struct str){name.ptr + skipped, name.len - skipped};
}

static struct str *users_of(const struct listed *images, size_t n, const struct listed *base,
                            struct arena *arena, size_t *n_users)
{
    struct str *users = arena_array(arena, n + 1, sizeof *users);

    *n_users = 0;
    for (size_t i = 0; i < n; i++)
        if (reference_is_local(images[i].entry->reference) && is_built_on(&images[i], base))
            users[(*n_users)++] = deployment_of(&images[i]);
    return users;
}

static bool list_images(struct image_store *store, struct arena *arena, struct listed **images,
                        size_t *n, struct error *err)
{
    const struct image_entry *entries;
    struct error ignored;

    if (!image_list(store, arena, &entries, n, err))
        return false;
    *images = arena_array(arena, *n + 1, sizeof **images);
    for (size_t i = 0; i < *n; i++) {
        struct listed *image = &(*images)[i];
        image->entry = &entries[i];
        if (!manifest_load(store, entries[i].digest, arena, &image->blobs, &ignored))
            image->blobs = (struct manifest_blobs){0};
    }
    return true;
}

bool image_used_by(struct image_store *store, const char *digest, struct arena *arena,
                   struct str **names, size_t *n, struct error *err)
{
    struct image_entry entry = {0};
    struct listed base = {.entry = &entry}, *images;
    struct error ignored;
    size_t n_images;

    memcpy(entry.digest, digest, DIGEST_TEXT);
    if (!list_images(store, arena, &images, &n_images, err))
        return false;
    if (!manifest_load(store, digest, arena, &base.blobs, &ignored))
        base.blobs = (struct manifest_blobs){0};
    *names = users_of(images, n_images, &base, arena, n);
    return true;
}

static void write_entry(struct json_writer *writer, const struct image_entry *entry,
                        const struct str *users, size_t n_users)
{
    json_open(writer, NULL);
    json_text(writer, "reference", entry->reference);
    json_string(writer, "digest", entry->digest);
    json_int(writer, "size", entry->size);
    json_open_list(writer, "used_by");
    for (size_t i = 0; i < n_users; i++)
        json_text(writer, NULL, users[i]);
    json_close_list(writer);
    json_time(writer, "created_at", entry->created_ms);
    json_close(writer);
}

static bool print_json(const struct listed *images, size_t n, bool by_line, struct arena *arena,
                       struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = OUTPUT_MAX};
    struct json_writer writer = json_begin(&text);

    if (!by_line) {
        json_open(&writer, NULL);
        json_open_list(&writer, "images");
    }
    for (size_t i = 0; i < n; i++) {
        size_t n_users;
        const struct str *users = users_of(images, n, &images[i], arena, &n_users);
        if (by_line)
            writer = json_begin(&text);
        write_entry(&writer, images[i].entry, users, n_users);
        if (by_line && (!json_end(&writer, err) || !buf_append(&text, STR("\n"), err)))
            return false;
    }
    if (!by_line) {
        json_close_list(&writer);
        json_close(&writer);
        if (!json_end(&writer, err) || !buf_append(&text, STR("\n"), err))
            return false;
    }
    fwrite(text.bytes, 1, text.len, stdout);
    return true;
}

/* All in a pipe; on a terminal the first few. */
static struct str join(const struct str *users, size_t n, bool is_terminal, struct arena *arena)
{
    size_t shown = is_terminal && n > NAMES_SHOWN ? NAMES_SHOWN : n;
    char *text = arena_text(arena, STR(""));

    for (size_t i = 0; i < shown; i++)
        text = arena_printf(arena, "%s%s%.*s", text, i ? "," : "", (int)users[i].len, users[i].ptr);
    if (shown < n)
        text = arena_printf(arena, "%s and %zu more", text, n - shown);
    return str_of(text);
}

static void print_table(const struct listed *images, size_t n, struct arena *arena)
{
    static const char *const columns[] = {"REFERENCE", "DIGEST", "SIZE", "USED BY"};
    AUTO(table_finish) struct table table;
    bool is_terminal = isatty(STDOUT_FILENO);

    table_init(&table, columns, COUNT_OF(columns));
    for (size_t i = 0; i < n; i++) {
        const struct image_entry *entry = images[i].entry;
        struct str digest = str_of(entry->digest);
        size_t n_users;
        const struct str *users = users_of(images, n, &images[i], arena, &n_users);
        if (is_terminal)
            digest.len = SHORT_DIGEST;
        const struct str cells[] = {
            entry->reference,
            digest,
            image_size_text(entry->size, is_terminal, arena),
            join(users, n_users, is_terminal, arena),
        };
        table_row(&table, cells);
    }
    table_print(&table, stdout, is_terminal);
}

bool image_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(image_host_finish) struct image_host host = {0};
    struct listed *images;
    size_t n;

    *exit_code = 0;
    if (!image_host_open(invocation, &host, err) ||
        !list_images(host.store, &arena, &images, &n, err))
        return false;
    if (invocation_has(invocation, "json") || invocation_has(invocation, "jsonl"))
        return print_json(images, n, invocation_has(invocation, "jsonl"), &arena, err);
    print_table(images, n, &arena);
    return true;
}
