/* GET runs/:run/diff and workspaces/:workspace/diff: what changed between two versions, of which
 * one may be what the sandbox holds right now. */
#include <stdlib.h>

#include "base/encode.h"
#include "base/json.h"
#include "base/text_diff.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/diff.h"
#include "server/handlers.h"
#include "server/page.h"
#include "server/snapshot.h"
#include "store/queries.h"

/* A page with patches ends early rather than grow over PAGE_BYTES. */
enum { LIMIT_DEFAULT = 200, LIMIT_MAX = 500, PAGE_BYTES = 4 << 20 };

/* What a difference is of, and between which versions unless others are named. */
struct subject {
    char id[ID_TEXT];
    const char *from, *to;
    const char *begun; /* where a difference to what is there now begins */
};

/* Versions are ids, or empty for what the image alone holds. */
struct wanted {
    char from[ID_TEXT], to[ID_TEXT];
    bool is_from_live, is_to_live;
    struct str within, after; /* after: the last path of the page before; empty: none */
    int64_t limit;
    bool has_patch;
};

/* Both trees, for as long as they are compared. */
struct sides {
    struct object_backend backend;
    struct key_ring ring;
    struct tree_reader from, to;
    struct diff diff;
};

static void finish_sides(struct sides *sides)
{
    diff_finish(&sides->diff);
    tree_reader_finish(&sides->from);
    tree_reader_finish(&sides->to);
    key_ring_finish(&sides->ring);
}

static bool read_version(struct call *call, const char *name, const char *usual, char id[ID_TEXT],
                         bool *is_live, struct error *err)
{
    struct str text;
    bool found = false;

    if (!call_query(call, name, &text, &found, err))
        return false;
    snprintf(id, ID_TEXT, "%s", !found && usual ? usual : "");
    *is_live = found && str_equal(text, STR("live"));
    if (!found || *is_live || str_equal(text, STR("image")))
        return true;
    return id_parse(text, id) ||
           error_set(err, ERR_INVALID, "%s must be a version's id, image or live", name);
}

static bool read_cursor(struct call *call, struct str *after, struct error *err)
{
    struct str text;
    bool found = false;

    if (!call_query(call, "cursor", &text, &found, err) || !found)
        return !found;
    size_t len = text.len;
    char *path = arena_alloc(call->arena, len + 1);
    if (!base64url_decode(text, path, &len) || len == 0)
        return error_set(err, ERR_INVALID_CURSOR, "the cursor is not one of this list");
    *after = (struct str){path, len};
    return true;
}

static bool read_flag(struct call *call, const char *name, bool *is_set, struct error *err)
{
    struct str text;
    bool found = false;

    *is_set = false;
    if (!call_query(call, name, &text, &found, err) || !found)
        return !found;
    *is_set = str_equal(text, STR("1")) || str_equal(text, STR("true"));
    return *is_set || str_equal(text, STR("0")) || str_equal(text, STR("false")) ||
           error_set(err, ERR_INVALID, "%s must be 1 or 0", name);
}

/* With or without slashes around it. */
static bool read_path(struct call *call, struct str *within, struct error *err)
{
    bool found = false;

    if (!call_query(call, "path", within, &found, err))
        return false;
    if (!found)
        *within = (struct str){0};
    while (within->len > 0 && within->ptr[0] == '/')
        *within = (struct str){within->ptr + 1, within->len - 1};
    while (within->len > 0 && within->ptr[within->len - 1] == '/')
        within->len--;
    return true;
}

static bool read_wanted(struct call *call, const struct subject *subject, struct wanted *wanted,
                        struct error *err)
{
    *wanted = (struct wanted){0};
    return read_version(call, "to", subject->to, wanted->to, &wanted->is_to_live, err) &&
           read_version(call, "from", wanted->is_to_live ? subject->begun : subject->from,
                        wanted->from, &wanted->is_from_live, err) &&
           read_flag(call, "patch", &wanted->has_patch, err) &&
           read_path(call, &wanted->within, err) && read_cursor(call, &wanted->after, err) &&
           call_query_int(call, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &wanted->limit, err);
}

static bool find_manifest(struct call *call, struct tx *tx, const char *id, const char **manifest,
                          struct error *err)
{
    struct rows rows;

    *manifest = NULL;
    if (!*id)
        return true;
    if (!STORE(tx, &version_manifest, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no version %s", id);
    *manifest = row_text(&rows, 0, VERSION_MANIFEST_MANIFEST_ID);
    return true;
}

static bool open_sides(struct call *call, const struct wanted *wanted, struct sides *sides,
                       struct error *err)
{
    struct server *server = server_of(call);
    const char *from, *to;
    {
        AUTO_TX tx = NULL;
        if (!store_begin_read(server->store, &tx, err) ||
            !find_manifest(call, tx, wanted->from, &from, err) ||
            !find_manifest(call, tx, wanted->to, &to, err))
            return false;
    }
    sides->backend = object_backend_of(server->blobs);
    sides->diff.within = wanted->within;
    sides->diff.from = from ? &sides->from : NULL;
    sides->diff.to = to ? &sides->to : NULL;
    return keys_ring(&server->keys, &sides->ring, err) &&
           (!from ||
            tree_reader_init(&sides->from, &sides->backend, &sides->ring.keys, from, err)) &&
           (!to || tree_reader_init(&sides->to, &sides->backend, &sides->ring.keys, to, err));
}

static const char *type_of(const struct diff_change *change)
{
    const struct node_entry *entry = change->after ? change->after : change->before;
    enum tree_kind kind = entry ? entry->kind : TREE_WHITEOUT;

    switch (kind) {
    case TREE_FILE: return "file";
    case TREE_DIRECTORY: return "directory";
    case TREE_SYMLINK: return "symlink";
    case TREE_FIFO:
    case TREE_WHITEOUT: break;
    }
    return "other";
}

static void write_side(struct json_writer *json, const struct node_entry *entry, const char *size,
                       const char *mode)
{
    if (entry && entry->kind == TREE_FILE)
        json_int(json, size, (int64_t)entry->size);
    if (entry)
        json_int(json, mode, entry->mode);
}

static bool write_patch(struct json_writer *json, struct diff *diff,
                        const struct diff_change *change, struct error *err)
{
    AUTO(buf_finish) struct buf patch = {.max = TEXT_DIFF_OUT_MAX};
    enum diff_text result;

    if (!diff_patch(diff, change, &patch, &result, err))
        return false;
    if (result == DIFF_TEXT)
        json_text(json, "patch", buf_str(&patch));
    if (result == DIFF_BINARY)
        json_bool(json, "binary", true);
    return true;
}

static bool write_change(struct json_writer *json, struct diff *diff,
                         const struct diff_change *change, bool has_patch, struct error *err)
{
    json_open(json, NULL);
    json_text(json, "path", change->path);
    json_string(json, "change", diff_kind_name(change->kind));
    json_string(json, "type", type_of(change));
    if (change->path_before.len > 0)
        json_text(json, "path_before", change->path_before);
    write_side(json, change->before, "size_before", "mode_before");
    write_side(json, change->after, "size_after", "mode_after");
    if (has_patch && !write_patch(json, diff, change, err))
        return false;
    json_close(json);
    return true;
}

static void write_version(struct json_writer *json, const char *name, const char *id)
{
    json_string(json, name, *id ? id : NULL);
}

static void write_next(struct call *call, struct json_writer *json, struct str path)
{
    char *text = arena_alloc(call->arena, (4 * path.len + 2) / 3 + 1);

    base64url_encode(path, text);
    json_string(json, "next_cursor", text);
}

static bool write_page(struct call *call, const struct wanted *wanted, struct diff *diff,
                       struct buf *body, struct json_writer *json, struct error *err)
{
    const struct diff_change *last = NULL;
    int64_t shown = 0;
    bool has_more = false;

    json_open_list(json, "entries");
    for (size_t i = 0; i < diff->n && !has_more; i++) {
        const struct diff_change *change = &diff->changes[i];
        if (wanted->after.len > 0 && tree_path_order(change->path, wanted->after) <= 0)
            continue;
        has_more = shown == wanted->limit || body->len > PAGE_BYTES;
        if (has_more)
            break;
        if (!write_change(json, diff, change, wanted->has_patch, err))
            return false;
        last = change;
        shown++;
    }
    json_close_list(json);
    if (has_more && last)
        write_next(call, json, last->path);
    return true;
}

/* What is there now is a version from here on, once it is there. */
static bool find_live(struct call *call, const struct subject *subject, struct wanted *wanted,
                      bool *is_there, struct response *res, struct error *err)
{
    struct snapshot snapshot = {.is_there = true};

    if ((wanted->is_from_live || wanted->is_to_live) &&
        !snapshot_ask(call, subject->id, &snapshot, res, err))
        return false;
    if (wanted->is_from_live)
        memcpy(wanted->from, snapshot.version_id, ID_TEXT);
    if (wanted->is_to_live)
        memcpy(wanted->to, snapshot.version_id, ID_TEXT);
    *is_there = snapshot.is_there;
    return true;
}

static bool write_all(struct call *call, const struct wanted *wanted, struct response *res,
                      struct error *err)
{
    AUTO(finish_sides) struct sides sides = {0};
    struct buf *body = response_body(res);
    struct json_writer json = json_begin(body);

    if (!open_sides(call, wanted, &sides, err) || !diff_find(&sides.diff, err))
        return false;
    json_open(&json, NULL);
    write_version(&json, "from_version_id", wanted->from);
    write_version(&json, "to_version_id", wanted->to);
    if (!write_page(call, wanted, &sides.diff, body, &json, err))
        return false;
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool answer(struct call *call, const struct subject *subject, struct response *res,
                   struct error *err)
{
    struct wanted wanted;
    bool is_there;

    return read_wanted(call, subject, &wanted, err) &&
           find_live(call, subject, &wanted, &is_there, res, err) &&
           (!is_there || write_all(call, &wanted, res, err));
}

static bool find_subject(struct call *call, const struct query *query, const char *what,
                         struct subject *subject, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!call_id(call, 0, subject->id, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, query, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(subject->id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no %s %s", what, subject->id);
    subject->from = subject->begun = row_text(&rows, 0, 0);
    subject->to = row_text(&rows, 0, 1);
    return true;
}

bool run_diff_get(struct call *call, struct response *res, struct error *err)
{
    struct subject run;

    return find_subject(call, &run_versions, "run", &run, err) && answer(call, &run, res, err);
}

bool workspace_diff_get(struct call *call, struct response *res, struct error *err)
{
    struct subject workspace;

    if (!find_subject(call, &workspace_versions, "workspace", &workspace, err))
        return false;
    workspace.begun = workspace.to;
    return answer(call, &workspace, res, err);
}
