/* `helmr image show`: one image, its configuration and its layers. */
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "base/table.h"
#include "base/time.h"
#include "image/config.h"
#include "worker/commands.h"
#include "worker/image_command.h"

enum { OUTPUT_MAX = 16 * 1024 * 1024, SHORT_DIGEST = 19, STEP_SHOWN = 60 };

struct shown {
    struct image_store *store;
    struct arena arena;
    char name[REFERENCE_TEXT];
    struct image_document document;
    struct str *users, *steps; /* steps: one per layer */
    size_t n_users;
    int64_t size;
};

static void shown_finish(struct shown *shown)
{
    arena_finish(&shown->arena);
}

/* The lines of history that made a layer, in the order of the layers. */
static void read_steps(struct shown *shown)
{
    const struct image *image = &shown->document.image;
    struct str history = shown->document.history, empty;
    struct str list = str_of(
        arena_printf(&shown->arena, "[%.*s]", (int)history.len, history.len ? history.ptr : ""));
    size_t n = json_count(list, ""), at = 0;

    shown->steps = arena_array(&shown->arena, image->n_layers + 1, sizeof *shown->steps);
    for (size_t i = 0; i < n && at < image->n_layers; i++) {
        const char *row = arena_printf(&shown->arena, "%zu.empty_layer", i);
        if (json_find_raw(list, row, &shown->arena, &empty) && str_equal(empty, STR("true")))
            continue;
        row = arena_printf(&shown->arena, "%zu.created_by", i);
        if (!json_find_text(list, row, &shown->arena, &shown->steps[at]))
            shown->steps[at] = STR("");
        at++;
    }
}

static bool load(struct shown *shown, const char *reference, struct error *err)
{
    const struct image *image = &shown->document.image;
    char digest[DIGEST_TEXT];

    if (!index_resolve(shown->store, reference, digest, shown->name, err) ||
        !document_load(shown->store, digest, &shown->arena, &shown->document, err) ||
        !image_used_by(shown->store, digest, &shown->arena, &shown->users, &shown->n_users, err))
        return false;
    shown->size = image->size + image->config_size;
    for (size_t i = 0; i < image->n_layers; i++)
        shown->size += image->layers[i].size;
    read_steps(shown);
    return true;
}

static bool is_unpacked(const struct shown *shown, size_t at)
{
    return disk_has(shown->store->layers_fd, shown->document.image.layers[at].chain);
}

static bool is_here(const struct shown *shown, size_t at)
{
    struct stat facts;

    return store_look(shown->store, shown->document.image.layers[at].digest, &facts);
}

static struct str env_name(struct str pair)
{
    const char *equals = pair.len ? memchr(pair.ptr, '=', pair.len) : NULL;

    return (struct str){pair.ptr, equals ? (size_t)(equals - pair.ptr) : pair.len};
}

static void write_layers(struct json_writer *writer, const struct shown *shown)
{
    const struct image *image = &shown->document.image;

    json_open_list(writer, "layers");
    for (size_t i = 0; i < image->n_layers; i++) {
        json_open(writer, NULL);
        json_string(writer, "digest", image->layers[i].digest);
        json_string(writer, "diff_id", image->layers[i].diff_id);
        json_int(writer, "size", image->layers[i].size);
        json_bool(writer, "present", is_here(shown, i));
        json_bool(writer, "unpacked", is_unpacked(shown, i));
        json_text(writer, "step", shown->steps[i]);
        json_close(writer);
    }
    json_close_list(writer);
}

static bool print_json(const struct shown *shown, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = OUTPUT_MAX};
    struct json_writer writer = json_begin(&text);
    const struct image *image = &shown->document.image;

    json_open(&writer, NULL);
    json_string(&writer, "reference", shown->name[0] ? shown->name : NULL);
    json_string(&writer, "digest", image->digest);
    json_string(&writer, "platform", "linux/" IMAGE_ARCHITECTURE);
    if (shown->document.created_ms)
        json_time(&writer, "created_at", shown->document.created_ms);
    else
        json_null(&writer, "created_at");
    json_int(&writer, "size", shown->size);
    json_text(&writer, "workdir", image->config.workdir);
    json_text(&writer, "user", image->config.user);
    json_open_list(&writer, "env");
    for (size_t i = 0; i < image->config.n_env; i++)
        json_text(&writer, NULL, env_name(image->config.env[i]));
    json_close_list(&writer);
    json_open_list(&writer, "used_by");
    for (size_t i = 0; i < shown->n_users; i++)
        json_text(&writer, NULL, shown->users[i]);
    json_close_list(&writer);
    write_layers(&writer, shown);
    json_close(&writer);
    return json_end(&writer, err) && image_print_json(&text);
}

static void add_fact(struct table *table, const char *name, struct str value)
{
    const struct str cells[] = {str_of(name), value};

    table_row(table, cells);
}

static struct str joined_env(struct shown *shown)
{
    const struct image_config *config = &shown->document.image.config;
    char *text = arena_text(&shown->arena, STR(""));

    for (size_t i = 0; i < config->n_env; i++) {
        struct str name = env_name(config->env[i]);
        text = arena_printf(&shown->arena, "%s%s%.*s", text, i ? " " : "", (int)name.len, name.ptr);
    }
    return str_of(text);
}

static void print_facts(struct shown *shown, bool is_terminal)
{
    static const char *const columns[] = {"FIELD", "VALUE"};
    AUTO(table_finish) struct table table;
    const struct image *image = &shown->document.image;
    char when[TIME_TEXT_MAX] = "";

    table_init(&table, columns, COUNT_OF(columns));
    if (shown->name[0])
        add_fact(&table, "reference", str_of(shown->name));
    add_fact(&table, "digest", str_of(image->digest));
    add_fact(&table, "platform", STR("linux/" IMAGE_ARCHITECTURE));
    if (shown->document.created_ms)
        add_fact(&table, "created", str_of(time_format(shown->document.created_ms, when)));
    add_fact(&table, "size", image_size_text(shown->size, is_terminal, &shown->arena));
    add_fact(&table, "workdir", image->config.workdir);
    add_fact(&table, "user", image->config.user.len ? image->config.user : STR("root"));
    add_fact(&table, "env", joined_env(shown));
    for (size_t i = 0; i < shown->n_users; i++)
        add_fact(&table, "used by", shown->users[i]);
    table_print(&table, stdout, is_terminal);
}

static void print_layers(struct shown *shown, bool is_terminal)
{
    static const char *const columns[] = {"LAYER", "SIZE", "UNPACKED", "STEP"};
    AUTO(table_finish) struct table table;
    const struct image *image = &shown->document.image;

    table_init(&table, columns, COUNT_OF(columns));
    for (size_t i = 0; i < image->n_layers; i++) {
        struct str digest = str_of(image->layers[i].digest), step = shown->steps[i];
        if (is_terminal) {
            digest.len = SHORT_DIGEST;
            step.len = step.len > STEP_SHOWN ? STEP_SHOWN : step.len;
        }
        const struct str cells[] = {
            digest,
            image_size_text(image->layers[i].size, is_terminal, &shown->arena),
            is_unpacked(shown, i) ? STR("yes") : STR("no"),
            step,
        };
        table_row(&table, cells);
    }
    table_print(&table, stdout, is_terminal);
}

bool image_show_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(image_host_finish) struct image_host host = {0};
    AUTO(shown_finish) struct shown shown = {0};
    bool is_terminal = isatty(STDOUT_FILENO);

    *exit_code = 0;
    if (!image_host_open(invocation, &host, err))
        return false;
    shown.store = host.store;
    if (!load(&shown, invocation->args[0], err))
        return false;
    if (invocation_has(invocation, "json"))
        return print_json(&shown, err);
    print_facts(&shown, is_terminal);
    if (is_terminal)
        printf("\n");
    print_layers(&shown, is_terminal);
    return true;
}
