#include "worker/capture.h"

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

static void describe(const struct tree_facts *facts, struct arena *arena, struct capture *capture)
{
    char id[ID_TEXT];

    id_make(id);
    capture->has_version = true;
    capture->version = (struct wire_version){
        .id = arena_str(arena, str_of(id)),
        .manifest = arena_str(arena, str_of(facts->manifest)),
        .tree_digest = arena_str(arena, str_of(facts->tree_digest)),
        .objects = objects_of(facts, arena),
        .size_bytes = (int64_t)facts->n_bytes,
        .entries = (int64_t)facts->n_entries,
    };
}

bool capture_workspace(struct guest *guest, struct lease *lease, struct line *line, bool has_base,
                       int64_t until_ms, struct arena *arena, struct capture *capture,
                       struct error *err)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};
    AUTO(tree_decoder_finish) struct tree_decoder decoder = {0};
    struct object_link link = {line, lease, until_ms};
    const struct object_backend backend = object_backend_of_link(&link);
    struct tree_facts facts;

    *capture = (struct capture){0};
    if (!link_store_keys(line->link, &ring, err))
        return false;
    const struct tree_plan plan = {&backend, &ring.keys};
    AUTO(destroy_writer) struct tree_writer *writer = tree_writer_create(&plan);
    tree_decoder_init(&decoder, tree_writer_entry, tree_writer_bytes, writer);
    if (!guest_capture(guest, GUEST_WORKSPACE, take, &decoder, until_ms, err) ||
        !tree_decode_end(&decoder, err))
        return false;
    /* A new workspace that nobody touched is what its image says. */
    if (decoder.n_entries == 0 && !has_base)
        return true;
    if (!tree_writer_end(writer, &facts, err))
        return false;
    describe(&facts, arena, capture);
    return true;
}
