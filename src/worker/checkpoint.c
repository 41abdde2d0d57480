#include "worker/checkpoint.h"

#include <string.h>
#include <sys/stat.h>

#include "base/encode.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "blob/loader.h"
#include "blob/saver.h"
#include "worker/object_link.h"
#include "worker/standby.h"
#include "worker/template.h"
#include "worker/worker.h"

#define KIND     "checkpoint"
#define TEMPLATE "template"

/* The saved sandbox as a source of bytes. */
struct unloading {
    struct saved_reader *reader;
    struct str rest;
};

static bool unload(void *arg, void *bytes, size_t room, size_t *got, struct error *err)
{
    struct unloading *unloading = arg;

    if (unloading->rest.len == 0 && !saved_read(unloading->reader, &unloading->rest, err))
        return false;
    *got = unloading->rest.len < room ? unloading->rest.len : room;
    memcpy(bytes, unloading->rest.ptr, *got);
    unloading->rest = (struct str){unloading->rest.ptr + *got, unloading->rest.len - *got};
    return true;
}

/* The template a run's memory grew from: its parent, or that of its parent. */
static struct str template_of_parent(const struct run *run)
{
    const struct manifest *parent = &run->parent.manifest;

    if (!run->parent.digest[0])
        return (struct str){0};
    if (str_equal(parent->kind, STR(TEMPLATE)))
        return str_of(run->parent.digest);
    const struct manifest_fact *fact = manifest_fact_find(parent, STR(TEMPLATE));
    return fact ? fact->value : (struct str){0};
}

static bool add_facts(struct run *run, struct saver *saver, const struct checkpoint_about *about,
                      struct error *err)
{
    struct str template = template_of_parent(run);
    char nonce[2 * GUEST_NONCE_LEN + 1];

    hex_encode((struct str){(const char *)about->nonce, GUEST_NONCE_LEN}, nonce);
    return saver_fact(saver, "run", str_of(about->run_id), err) &&
           saver_fact(saver, "wait", str_of(run->wait.id), err) &&
           saver_fact(saver, "compat", str_of(run->worker->compat), err) &&
           (template.len == 0 || saver_fact(saver, TEMPLATE, template, err)) &&
           (!about->base.manifest[0] ||
            (saver_fact(saver, "version", str_of(about->base.manifest), err) &&
             saver_fact(saver, "mark", str_of(about->base.mark), err))) &&
           saver_fact(saver, "nonce", str_of(nonce), err);
}

static void note_objects(struct run *run, const struct saved *saved, struct checkpoint_kept *kept)
{
    struct wire_object *objects = arena_array(&run->arena, saved->n_packs + 1, sizeof *objects);

    for (size_t i = 0; i < saved->n_packs; i++)
        objects[i].digest = arena_str(&run->arena, str_of(saved->packs[i]));
    objects[saved->n_packs].digest = arena_str(&run->arena, str_of(saved->manifest));
    memcpy(kept->manifest, saved->manifest, sizeof kept->manifest);
    kept->objects = (struct json_list){objects, saved->n_packs + 1};
    kept->logical_bytes = (int64_t)saved->raw;
    kept->stored_bytes = (int64_t)saved->stored;
}

static bool open_keys(struct run *run, struct key_ring *ring, struct error *err)
{
    key_ring_init(ring, SEAL_CHECKPOINT);
    return key_ring_add(ring, secret_reveal(&run->worker->settings->checkpoint_key), err);
}

static bool keep(struct run *run, const struct saved_image *image, const atomic_bool *is_growing,
                 const char *kind, const struct checkpoint_about *about,
                 struct checkpoint_kept *kept, struct error *err)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};
    struct object_link link = {&run->line, run->lease, 0};
    struct object_backend backend = object_backend_of_link(&link);
    const struct saver_plan plan = {
        .backend = &backend,
        .keys = &ring.keys,
        .kind = kind,
        .parent = about && run->parent.digest[0] ? &run->parent.manifest : NULL,
        .parent_digest = run->parent.digest,
        .sizes = chunk_sizes_memory,
    };
    struct unloading unloading = {0};
    struct saver *saver = NULL;
    struct saved saved;

    if (!open_keys(run, &ring, err) ||
        !saved_reader_open(image, is_growing, &unloading.reader, err))
        return false;
    saver_create(&plan, &saver);
    bool fine =
        saver_stream(saver, CHECKPOINT_STREAM, (struct saver_source){unload, &unloading}, err) &&
        (!about || add_facts(run, saver, about, err)) && saver_end(saver, &saved, err);
    if (fine)
        note_objects(run, &saved, kept);
    saver_destroy(saver);
    saved_reader_close(unloading.reader);
    return fine;
}

bool checkpoint_keep(struct run *run, const struct saved_image *image,
                     const atomic_bool *is_growing, const struct checkpoint_about *about,
                     struct checkpoint_kept *kept, struct error *err)
{
    return keep(run, image, is_growing, KIND, about, kept, err);
}

bool checkpoint_keep_base(struct run *run, const struct saved_image *image,
                          struct checkpoint_kept *kept, struct error *err)
{
    return keep(run, image, NULL, TEMPLATE, NULL, kept, err);
}

bool checkpoint_read_manifest(struct run *run, const char *digest, struct arena *arena,
                              struct manifest *manifest, struct error *err)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};
    struct object_link link = {&run->line, run->lease, 0};
    struct object_backend backend = object_backend_of_link(&link);
    struct seal_source source;
    int fd = -1;

    if (!open_keys(run, &ring, err) || !backend.open(backend.arg, digest, &fd, err))
        return false;
    AUTO_FD int opened = fd;
    return seal_source_fd(&opened, &source, err) &&
           manifest_read(&ring.keys, source, digest, arena, manifest, err);
}

static bool read_parent(struct run *run, const char *digest, struct error *err)
{
    struct run_parent *parent = &run->parent;

    if (!checkpoint_read_manifest(run, digest, &parent->arena, &parent->manifest, err))
        return false;
    snprintf(parent->digest, sizeof parent->digest, "%s", digest);
    return true;
}

bool checkpoint_find_parent(struct run *run, struct error *err)
{
    const struct wire_grant *grant = &run->lease->grant;
    struct template *origin = guest_origin(run->guest);
    char digest[SHA256_HEX];

    if (run->parent.digest[0])
        return true;
    if (grant->has_resume)
        return read_parent(run, arena_text(&run->arena, grant->resume.manifest), err);
    return !origin ||
           (template_manifest(origin, run, digest, err) && read_parent(run, digest, err));
}

static bool load(void *arg, struct str bytes, struct error *err)
{
    return saved_write(arg, bytes, err);
}

/* Without one the next capture tells everything. */
static void read_base(const struct manifest *manifest, struct guest_base *base)
{
    const struct manifest_fact *version = manifest_fact_find(manifest, STR("version"));
    const struct manifest_fact *mark = manifest_fact_find(manifest, STR("mark"));

    if (!version || !mark || !sha256_hex_is_valid(version->value))
        return;
    snprintf(base->manifest, sizeof base->manifest, "%.*s", (int)version->value.len,
             version->value.ptr);
    snprintf(base->mark, sizeof base->mark, "%.*s", (int)mark->value.len, mark->value.ptr);
}

static bool read_facts(const struct manifest *manifest, struct checkpoint_about *about,
                       struct error *err)
{
    const struct manifest_fact *run = manifest_fact_find(manifest, STR("run"));
    const struct manifest_fact *nonce = manifest_fact_find(manifest, STR("nonce"));

    if (!str_equal(manifest->kind, STR(KIND)) || !run || !nonce || run->value.len != ID_LEN ||
        nonce->value.len != (size_t)2 * GUEST_NONCE_LEN ||
        !hex_decode(nonce->value, about->nonce, GUEST_NONCE_LEN))
        return error_set(err, ERR_DAMAGED, "the checkpoint does not say what is in it");
    snprintf(about->run_id, sizeof about->run_id, "%.*s", (int)run->value.len, run->value.ptr);
    read_base(manifest, &about->base);
    return true;
}

/* A template in memory here that the checkpoint grew from, with what is at hand of it; or NULL. */
static struct template *template_at_hand(struct run *run, const struct manifest *manifest,
                                         const struct template_chunks **chunks)
{
    const struct manifest_fact *fact = manifest_fact_find(manifest, STR(TEMPLATE));
    struct template *template =
        fact ? standby_find_template(run->worker->standby, fact->value) : NULL;
    struct error err;

    if (!template || template_open_chunks(template, run, chunks, &err))
        return template;
    log_debug("a template is of no help", LOG_ERR(&err));
    template_drop(template);
    return NULL;
}

static bool bring_stream(struct run *run, struct loader *loader, struct saved_writer *writer,
                         struct error *err)
{
    AUTO_FREE struct chunk_finder *finder = alloc(sizeof *finder);
    struct template *template = template_at_hand(run, loader_manifest(loader), &finder->chunks);

    if (template)
        loader_use(loader, chunk_finder_find, finder);
    bool fine = loader_stream(loader, CHECKPOINT_STREAM, (struct seal_sink){load, writer}, err);
    template_drop(template);
    return fine;
}

bool checkpoint_bring(struct run *run, const struct wire_resume_grant *grant,
                      struct saved_writer *writer, struct checkpoint_about *about,
                      struct error *err)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};
    struct object_link link = {&run->line, run->lease, 0};
    struct object_backend backend = object_backend_of_link(&link);
    const char *digest = arena_text(&run->arena, grant->manifest);
    struct loader *loader = NULL;

    bool fine = open_keys(run, &ring, err) &&
                loader_create(&backend, &ring.keys, digest, &loader, err) &&
                read_facts(loader_manifest(loader), about, err) &&
                bring_stream(run, loader, writer, err) && saved_writer_end(writer, err);
    loader_destroy(loader);
    return fine;
}
