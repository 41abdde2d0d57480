/* `helmr image …`: the local image store, from the command line. */
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/table.h"
#include "base/time.h"
#include "image/image.h"
#include "worker/commands.h"
#include "worker/settings.h"

enum { OUTPUT_MAX = 4 * 1024 * 1024 };

static const char default_image[] = "node:24-bookworm-slim";

static bool open_store(const struct invocation *invocation, struct image_store **store,
                       struct error *err)
{
    AUTO(worker_settings_finish) struct worker_settings settings;

    return worker_settings_read_host(invocation, &settings, err) &&
           directory_make(settings.work_dir, 0700, err) &&
           image_store_open(settings.work_dir, store, err);
}

static void print_progress(void *arg, const char *line)
{
    fprintf(arg, "%s\n", line);
}

bool image_bootstrap_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    const char *reference = invocation->n_args ? invocation->args[0] : default_image;
    struct image_store *store;
    char digest[DIGEST_TEXT];

    *exit_code = 0;
    if (!open_store(invocation, &store, err))
        return false;
    bool made = image_bootstrap(store, reference, invocation_has(invocation, "force"),
                                print_progress, stderr, digest, err);
    image_store_close(store);
    if (!made)
        return false;
    if (invocation_has(invocation, "json"))
        printf("{\"reference\":\"%s\",\"digest\":\"%s\"}\n", reference, digest);
    else
        printf("%s\t%s\n", reference, digest);
    return true;
}

static void write_entry(struct json_writer *writer, const struct image_entry *entry)
{
    json_open(writer, NULL);
    json_text(writer, "reference", entry->reference);
    json_string(writer, "digest", entry->digest);
    json_int(writer, "size", entry->size);
    json_time(writer, "created_at", entry->created_ms);
    json_close(writer);
}

static bool print_json(const struct image_entry *entries, size_t n, bool by_line, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = OUTPUT_MAX};

    for (size_t i = 0; by_line && i < n; i++) {
        struct json_writer line = json_begin(&text);
        write_entry(&line, &entries[i]);
        if (!json_end(&line, err) || !buf_append(&text, STR("\n"), err))
            return false;
    }
    if (!by_line) {
        struct json_writer writer = json_begin(&text);
        json_open(&writer, NULL);
        json_open_list(&writer, "images");
        for (size_t i = 0; i < n; i++)
            write_entry(&writer, &entries[i]);
        json_close_list(&writer);
        json_close(&writer);
        if (!json_end(&writer, err) || !buf_append(&text, STR("\n"), err))
            return false;
    }
    fwrite(text.bytes, 1, text.len, stdout);
    return true;
}

static void print_table(const struct image_entry *entries, size_t n, struct arena *arena)
{
    static const char *const columns[] = {"REFERENCE", "DIGEST", "SIZE", "CREATED"};
    AUTO(table_finish) struct table table;

    table_init(&table, columns, COUNT_OF(columns));
    for (size_t i = 0; i < n; i++) {
        char *when = arena_alloc(arena, TIME_TEXT_MAX);
        const struct str cells[] = {
            entries[i].reference,
            str_of(entries[i].digest),
            str_of(arena_printf(arena, "%lld", (long long)entries[i].size)),
            str_of(time_format(entries[i].created_ms, when)),
        };
        table_row(&table, cells);
    }
    table_print(&table, stdout, isatty(STDOUT_FILENO));
}

bool image_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct image_entry *entries;
    struct image_store *store;
    size_t n;

    *exit_code = 0;
    if (!open_store(invocation, &store, err))
        return false;
    bool fine = image_list(store, &arena, &entries, &n, err);
    image_store_close(store);
    if (!fine)
        return false;
    if (invocation_has(invocation, "json") || invocation_has(invocation, "jsonl"))
        return print_json(entries, n, invocation_has(invocation, "jsonl"), err);
    print_table(entries, n, &arena);
    return true;
}
