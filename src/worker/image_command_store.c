/* `helmr image export`, `rm`, `prune` and `verify`. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "image/store.h"
#include "worker/commands.h"
#include "worker/image_command.h"

enum { OUTPUT_MAX = 1024 * 1024 };

typedef bool exporter(struct image_store *store, const char *reference, int fd, struct error *err);

static bool export_to_file(struct image_store *store, const char *reference, const char *path,
                           exporter *export, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    char name[DISK_TEMPORARY];

    /* Beside the file, so that its name never stands for half of an archive. */
    disk_temporary(name);
    const char *partial = arena_printf(&arena, "%s%s", path, name);
    AUTO_FD int fd = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_errno(err, "create %s", path);
    bool ok = export(store, reference, fd, err) &&
              (fsync(fd) == 0 || error_errno(err, "fsync %s", path)) &&
              (rename(partial, path) == 0 || error_errno(err, "rename to %s", path));
    if (!ok)
        (void)unlink(partial);
    return ok;
}

bool image_export_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(image_host_finish) struct image_host host = {0};
    const char *reference = invocation->args[0], *path = invocation->args[1];
    exporter *export = invocation_has(invocation, "gzip") ? image_export_gzip : image_export;

    *exit_code = 0;
    if (!image_host_open(invocation, &host, err))
        return false;
    if (strcmp(path, "-") != 0)
        return export_to_file(host.store, reference, path, export, err);
    if (isatty(STDOUT_FILENO))
        return error_set(err, ERR_INVALID,
                         "an archive is nothing for a terminal: redirect it, or name a file");
    return export(host.store, reference, STDOUT_FILENO, err);
}

static bool ask(const struct invocation *invocation, const char *question, int *exit_code,
                bool *agreed, struct error *err)
{
    if (!invocation_confirm(invocation, question, agreed, err))
        return false;
    if (!*agreed)
        *exit_code = 1;
    return true;
}

static struct str freed_text(const struct image_collected *went, struct arena *arena)
{
    struct str size = image_size_text(went->bytes, true, arena);

    return str_of(arena_printf(arena, "%.*s: %lld blobs, %lld unpacked layers, %lld finished steps",
                               (int)size.len, size.ptr, (long long)went->blobs,
                               (long long)went->layers, (long long)went->steps));
}

bool image_rm_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(image_host_finish) struct image_host host = {0};
    char digest[DIGEST_TEXT], name[REFERENCE_TEXT];
    const char *reference = invocation->args[0];
    struct image_collected went;
    bool agreed;

    *exit_code = 0;
    if (!image_host_open(invocation, &host, err) ||
        !index_resolve(host.store, reference, digest, name, err))
        return false;
    if (!name[0])
        return error_set(err, ERR_INVALID, "name the image by a reference, not by its digest");
    if (reference_is_local(str_of(name)))
        return error_set(err, ERR_CONFLICT,
                         "deployment %s needs this image; its name goes when the server says that "
                         "the deployment does not need it any more",
                         name + sizeof "helmr.local/" - 1);
    if (!ask(invocation, arena_printf(&arena, "Remove %s from the local store?", name), exit_code,
             &agreed, err))
        return false;
    if (!agreed)
        return true;
    if (!image_untag(host.store, name, err) ||
        !image_collect(host.store, &(struct image_collection){0}, &went, err))
        return false;
    struct str freed = freed_text(&went, &arena);
    printf(invocation_has(invocation, "json") ? "{\"reference\":\"%s\",\"status\":\"removed\"}\n"
                                              : "removed %s\n",
           name);
    fprintf(stderr, "freed %.*s\n", (int)freed.len, freed.ptr);
    return true;
}

static bool print_collected(const struct image_collected *went, bool is_dry, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = OUTPUT_MAX};
    struct json_writer writer = json_begin(&text);

    json_open(&writer, NULL);
    json_bool(&writer, "removed", !is_dry);
    json_int(&writer, "bytes", went->bytes);
    json_int(&writer, "blobs", went->blobs);
    json_int(&writer, "layers", went->layers);
    json_int(&writer, "steps", went->steps);
    json_int(&writer, "kept_bytes", went->kept_bytes);
    json_close(&writer);
    return json_end(&writer, err) && image_print_json(&text);
}

bool image_prune_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(image_host_finish) struct image_host host = {0};
    struct image_collection what = {.is_dry = true, .steps = invocation_has(invocation, "all")};
    bool is_json = invocation_has(invocation, "json"), agreed;
    struct image_collected went;

    *exit_code = 0;
    if (!image_host_open(invocation, &host, err) || !image_collect(host.store, &what, &went, err))
        return false;
    bool has_any = went.blobs || went.layers || went.steps;
    struct str freed = freed_text(&went, &arena);
    if (has_any && !is_json)
        printf("%.*s\n", (int)freed.len, freed.ptr);
    if (!has_any && !is_json)
        printf("nothing to remove\n");
    if (fflush(stdout) != 0)
        return error_errno(err, "write");
    if (!has_any)
        return !is_json || print_collected(&went, false, err);
    if (!ask(invocation, "Remove this from the local store?", exit_code, &agreed, err))
        return false;
    if (!agreed)
        return true;
    what.is_dry = false;
    if (!image_collect(host.store, &what, &went, err))
        return false;
    freed = freed_text(&went, &arena);
    if (is_json)
        return print_collected(&went, false, err);
    printf("freed %.*s\n", (int)freed.len, freed.ptr);
    return true;
}

static bool print_verdict_json(const struct image_verdict *verdict, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = OUTPUT_MAX};
    struct json_writer writer = json_begin(&text);
    size_t told =
        verdict->n_problems < IMAGE_PROBLEMS_MAX ? verdict->n_problems : IMAGE_PROBLEMS_MAX;

    json_open(&writer, NULL);
    json_bool(&writer, "ok", verdict->n_problems == 0);
    json_int(&writer, "references", verdict->references);
    json_int(&writer, "blobs", verdict->blobs);
    json_int(&writer, "bytes", verdict->bytes);
    json_int(&writer, "layers", verdict->layers);
    json_int(&writer, "steps", verdict->steps);
    json_int(&writer, "absent", verdict->absent);
    json_int(&writer, "stale_steps", verdict->stale_steps);
    json_int(&writer, "stray_layers", verdict->stray_layers);
    json_int(&writer, "leftovers", verdict->leftovers);
    json_int(&writer, "removed", verdict->removed);
    json_int(&writer, "n_problems", (int64_t)verdict->n_problems);
    json_open_list(&writer, "problems");
    for (size_t i = 0; i < told; i++) {
        json_open(&writer, NULL);
        json_string(&writer, "what", verdict->problems[i].what);
        json_string(&writer, "text", verdict->problems[i].text);
        json_string(&writer, "cure", verdict->problems[i].cure);
        json_close(&writer);
    }
    json_close_list(&writer);
    json_close(&writer);
    return json_end(&writer, err) && image_print_json(&text);
}

static void print_verdict(const struct image_verdict *verdict, struct arena *arena)
{
    struct str size = image_size_text(verdict->bytes, true, arena);

    for (size_t i = 0; i < verdict->n_problems && i < IMAGE_PROBLEMS_MAX; i++)
        printf("damaged\t%s\t%s\t%s\n", verdict->problems[i].what, verdict->problems[i].text,
               verdict->problems[i].cure);
    printf("%s\t%lld references, %lld blobs, %.*s", verdict->n_problems ? "damaged" : "ok",
           (long long)verdict->references, (long long)verdict->blobs, (int)size.len, size.ptr);
    if (verdict->n_problems)
        printf(", %zu problems", verdict->n_problems);
    if (verdict->absent)
        printf(", %lld blobs at the server only", (long long)verdict->absent);
    if (verdict->stale_steps + verdict->stray_layers + verdict->leftovers)
        printf(", of no use: %lld steps, %lld unpacked layers, %lld unfinished files",
               (long long)verdict->stale_steps, (long long)verdict->stray_layers,
               (long long)verdict->leftovers);
    printf("\n");
}

bool image_verify_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(image_host_finish) struct image_host host = {0};
    AUTO_FREE struct image_verdict *verdict = alloc(sizeof *verdict);
    struct image_meter meter = image_meter(false);

    *exit_code = 0;
    if (!image_host_open(invocation, &host, err))
        return false;
    bool done = image_verify(host.store, invocation_has(invocation, "repair"), image_meter_line,
                             &meter, verdict, err);
    image_meter_end(&meter);
    if (!done)
        return false;
    if (verdict->n_problems > 0)
        *exit_code = 1;
    if (invocation_has(invocation, "json"))
        return print_verdict_json(verdict, err);
    print_verdict(verdict, &arena);
    return true;
}
