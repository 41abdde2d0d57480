#include "worker/capture.h"

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "blob/tree_writer.h"
#include "worker/object_link.h"
#include "worker/worker.h"

static void destroy_writer(struct tree_writer **writer)
{
    tree_writer_destroy(*writer);
}

static bool take(void *arg, struct str bytes, struct error *err)
{
    return tree_decode(arg, bytes, err);
}

static struct json_list objects_of(const struct tree_facts *facts, struct arena *arena)
{
    struct wire_object *objects = arena_array(arena, facts->n_objects + 1, sizeof *objects);

    for (size_t i = 0; i < facts->n_objects; i++)
        objects[i] = (struct wire_object){arena_str(arena, str_of(facts->objects[i].digest)),
                                          (int64_t)facts->objects[i].size};
    return (struct json_list){objects, facts->n_objects};
}

/* One capture under way. */
struct capturing {
    struct guest *guest;
    struct lease *lease;
    int64_t until_ms, began_ms;
    bool has_base; /* the workspace had a version */
    char id[ID_TEXT];
    struct key_ring ring;
    struct cached_backend cached, cached_beside;
    struct object_backend backend, beside; /* beside: over a line of its own */
    struct tree_reader base;
    bool has_reader; /* of the version that the agent remembers */
};

static void describe(const struct capturing *capturing, const struct tree_facts *facts,
                     const struct guest_captured *captured, struct arena *arena,
                     struct capture *capture)
{
    capture->has_version = true;
    capture->version = (struct wire_version){
        .id = arena_str(arena, str_of(capturing->id)),
        .manifest = arena_str(arena, str_of(facts->manifest)),
        .tree_digest = arena_str(arena, str_of(facts->tree_digest)),
        .objects = objects_of(facts, arena),
        .size_bytes = (int64_t)facts->n_bytes,
        .entries = (int64_t)facts->n_entries,
        .files_read = (int64_t)captured->files_read,
        .bytes_read = (int64_t)captured->bytes_read,
        .capture_ms = time_boot_ms() - capturing->began_ms,
    };
}

/* A base that cannot be read, or has another key by now, is no reason to fail: without one
 * everything is stored. */
static void open_base(struct capturing *capturing)
{
    const struct guest_base *base = guest_base(capturing->guest);
    struct error err;

    if (!base->manifest[0])
        return;
    capturing->has_reader = tree_reader_init(&capturing->base, &capturing->backend,
                                             &capturing->ring.keys, base->manifest, &err) &&
                            capturing->base.has_key;
    if (!capturing->has_reader)
        log_debug("a version is captured without its base", LOG_STR("lease", capturing->lease->id));
}

static void tell(const struct capturing *capturing, const struct guest_captured *captured,
                 const struct tree_facts *facts, bool is_difference)
{
    log_debug("workspace captured", LOG_STR("lease", capturing->lease->id),
              LOG_INT("ms", time_boot_ms() - capturing->began_ms),
              LOG_INT("entries", (int64_t)facts->n_entries),
              LOG_INT("files_read", (int64_t)captured->files_read),
              LOG_INT("bytes_read", (int64_t)captured->bytes_read),
              LOG_INT("bytes_stored", (int64_t)facts->bytes_new),
              LOG_STR("told", is_difference ? "difference" : "all"),
              LOG_STR("because", captured->lack));
}

/* One try. With `since` the agent may tell only what is different. */
static bool take_tree(struct capturing *capturing, bool since, struct arena *arena,
                      struct capture *capture, struct error *err)
{
    AUTO(tree_decoder_finish) struct tree_decoder decoder = {0};
    struct tree_reader *base = capturing->has_reader ? &capturing->base : NULL;
    const struct tree_plan plan = {&capturing->backend, &capturing->ring.keys, base,
                                   &capturing->beside};
    AUTO(destroy_writer) struct tree_writer *writer = tree_writer_create(&plan);
    const char *mark = guest_goes_on(capturing->guest) ? capturing->id : "";
    struct guest_captured captured;
    struct tree_facts facts;

    tree_decoder_init(&decoder, tree_writer_entry, tree_writer_bytes, writer);
    decoder.takes_differences = since;
    const struct guest_wanted wanted = {
        .since = since ? guest_base(capturing->guest)->mark : NULL,
        .mark = mark,
    };
    if (!guest_capture(capturing->guest, &wanted, take, &decoder, capturing->until_ms, &captured,
                       err) ||
        !tree_decode_end(&decoder, err))
        return false;
    /* A new workspace that nobody touched is what its image says. */
    if (decoder.n_entries == 0 && !capturing->has_base)
        return true;
    if (!tree_writer_end(writer, &facts, err))
        return false;
    describe(capturing, &facts, &captured, arena, capture);
    tell(capturing, &captured, &facts, decoder.is_difference);
    if (mark[0])
        guest_set_base(capturing->guest, facts.manifest, mark);
    return true;
}

static void capturing_finish(struct capturing *capturing)
{
    tree_reader_finish(&capturing->base);
    key_ring_finish(&capturing->ring);
}

bool capture_workspace(struct guest *guest, struct lease *lease, struct line *line, bool has_base,
                       int64_t until_ms, struct arena *arena, struct capture *capture,
                       struct error *err)
{
    AUTO(line_close) struct line other = {0};
    struct object_link link = {line, lease, until_ms}, other_link = {&other, lease, until_ms};
    const struct object_backend behind = object_backend_of_link(&link),
                                behind_other = object_backend_of_link(&other_link);
    AUTO(capturing_finish)
    struct capturing capturing = {
        .guest = guest,
        .lease = lease,
        .until_ms = until_ms,
        .began_ms = time_boot_ms(),
        .has_base = has_base,
        .cached = {.cache = lease->worker->packs, .behind = &behind      },
        .cached_beside = {.cache = lease->worker->packs, .behind = &behind_other},
    };

    *capture = (struct capture){0};
    if (!link_store_keys(line->link, &capturing.ring, err) || !line_open(line->link, &other, err))
        return false;
    other.abort = line->abort;
    id_make(capturing.id);
    capturing.backend = object_backend_of_cache(&capturing.cached);
    capturing.beside = object_backend_of_cache(&capturing.cached_beside);
    open_base(&capturing);
    if (take_tree(&capturing, capturing.has_reader, arena, capture, err))
        return true;
    /* There is a difference that cannot be told. */
    return capturing.has_reader && err->code == ERR_CONFLICT &&
           take_tree(&capturing, false, arena, capture, err);
}
