/* The audit log to read: a page of it, newest first, or all of it as lines of JSON; and to check.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "base/time.h"
#include "server/audit.h"
#include "server/audit_checkpoint.h"
#include "server/audit_record.h"
#include "server/audit_verify.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/page.h"
#include "store/queries.h"

enum { FILTER_MAX = 512, PULL_ROWS = 500, PATH_TEXT = 4096 };

struct filter {
    char actor[FILTER_MAX], action[FILTER_MAX];
    int64_t from_ms, to_ms;
};

static bool read_text(struct call *call, const char *name, char text[FILTER_MAX], struct error *err)
{
    struct str value = {0};
    bool found = false;
    if (!call_query(call, name, &value, &found, err))
        return false;
    if (value.len >= FILTER_MAX)
        return error_set(err, ERR_INVALID, "%s is too long", name);
    snprintf(text, FILTER_MAX, "%.*s", (int)value.len, value.ptr ? value.ptr : "");
    return true;
}

static bool read_time(struct call *call, const char *name, int64_t otherwise, int64_t *ms,
                      struct error *err)
{
    struct str value;
    bool found = false;
    *ms = otherwise;
    if (!call_query(call, name, &value, &found, err))
        return false;
    return !found || time_parse(value, ms, err) ||
           error_set(err, ERR_INVALID, "%s must be a time such as 2026-01-31T12:00:00Z", name);
}

static bool read_filter(struct call *call, struct filter *filter, struct error *err)
{
    return read_text(call, "actor", filter->actor, err) &&
           read_text(call, "action", filter->action, err) &&
           read_time(call, "from", INT64_MIN, &filter->from_ms, err) &&
           read_time(call, "to", INT64_MAX, &filter->to_ms, err);
}

/* Cursors are made of ids, so a number is written as one. */
static struct str number_as_id(int64_t sequence, char id[ID_TEXT])
{
    snprintf(id, ID_TEXT, "00000000-0000-7000-8000-%012" PRIx64, (uint64_t)sequence);
    return str_of(id);
}

static int64_t number_of_id(const char *id)
{
    return strlen(id) == ID_LEN ? (int64_t)strtoull(id + ID_LEN - 12, NULL, 16) : INT64_MAX;
}

/* All three have the same parameters and columns; each has an index for what it filters by. */
static const struct query *list_query(const struct filter *filter)
{
    if (*filter->actor)
        return &audit_list_by_actor;
    return *filter->action ? &audit_list_by_action : &audit_list;
}

bool audit_list_get(struct call *call, struct response *res, struct error *err)
{
    struct filter filter;
    struct page page;
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!read_filter(call, &filter, err))
        return false;
    const char *key = arena_printf(call->arena, "%s %s %" PRId64 " %" PRId64, filter.actor,
                                   filter.action, filter.from_ms, filter.to_ms);
    if (!page_begin(call, "audit", str_of(key), false, &page, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, list_query(&filter), call->arena, &rows, err, V_INT(number_of_id(page.at)),
               V_TEXT(filter.actor), V_TEXT(filter.action), V_INT(filter.from_ms),
               V_INT(filter.to_ms), V_INT(page_rows(&page))))
        return false;

    struct json_writer json = json_begin(response_body(res));
    size_t n = rows.n_rows > (size_t)page.limit ? (size_t)page.limit : rows.n_rows;
    json_open(&json, NULL);
    json_open_list(&json, "entries");
    for (size_t i = 0; i < n; i++) {
        struct audit_record record = audit_record_of(&rows, i);
        audit_record_write(&json, &record);
    }
    json_close_list(&json);
    if (n < rows.n_rows) {
        char id[ID_TEXT];
        page_next(call, &page, number_as_id(row_int(&rows, n - 1, AUDIT_LIST_SEQUENCE), id), &json);
    }
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

/* An export under way. It ends at the entry that was the last when it began. */
struct export
{
    const struct server *server;
    struct filter filter;
    char chain_id[ID_TEXT];
    int64_t first, last, upto; /* first is 0 before any entry was written */
    uint8_t before[BLAKE2B_LEN], mac[BLAKE2B_LEN];
    size_t before_len;
};

static bool write_line(struct buf *out, const struct audit_record *record, struct error *err)
{
    struct json_writer json = json_begin(out);
    audit_record_write(&json, record);
    return json_end(&json, err) && buf_append(out, STR("\n"), err);
}

/* A part of the log that is not whole cannot be sealed: what lies between is not known. */
static bool write_trailer(const struct export *export, struct buf *out, struct error *err)
{
    if (export->filter.actor[0] || export->filter.action[0])
        return true;
    uint8_t seal[BLAKE2B_LEN];
    struct audit_trailer trailer = {
        .chain_id = str_of(export->chain_id),
        .before = {(const char *)export->before, export->before_len},
        .first = export->first ? export->first : 1,
        .last = export->last,
        .key_id = str_of(export->server->keys.ids[KEY_AUDIT]),
        .seal = {(const char *)seal,           sizeof seal       },
    };
    audit_trailer_seal(keys_subkey(&export->server->keys, KEY_AUDIT, 0), &trailer,
                       (struct str){(const char *)export->mac,
                                    export->last ? sizeof export->mac : 0},
                       seal);
    struct json_writer json = json_begin(out);
    audit_trailer_write(&json, &trailer);
    return json_end(&json, err) && buf_append(out, STR("\n"), err);
}

/* The mac before the first entry that is exported, so that this one can be checked too. */
static bool begin_at(struct export *export, struct tx *tx, struct arena *arena, int64_t first,
                     struct error *err)
{
    struct rows rows;
    export->first = first;
    if (!STORE(tx, &audit_mac_get, arena, &rows, err, V_INT(first - 1)))
        return false;
    struct str mac = rows.n_rows ? row_str(&rows, 0, AUDIT_MAC_GET_MAC) : (struct str){0};
    export->before_len = mac.len <= BLAKE2B_LEN ? mac.len : 0;
    if (export->before_len)
        memcpy(export->before, mac.ptr, export->before_len);
    return true;
}

static bool pull(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    struct export *export = state;
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    AUTO_TX tx = NULL;
    if (!store_begin_read(export->server->store, &tx, err) ||
        !STORE(tx, &audit_read, &arena, &rows, err, V_INT(export->last),
               V_TEXT(export->filter.actor), V_TEXT(export->filter.action),
               V_INT(export->filter.from_ms), V_INT(export->filter.to_ms), V_INT(PULL_ROWS)) ||
        (rows.n_rows > 0 && !export->first &&
         !begin_at(export, tx, &arena, row_int(&rows, 0, AUDIT_READ_SEQUENCE), err)))
        return false;
    *over = rows.n_rows < PULL_ROWS;
    for (size_t i = 0; i < rows.n_rows; i++) {
        struct audit_record record = audit_record_of(&rows, i);
        if (record.sequence > export->upto) {
            *over = true;
            break;
        }
        export->last = record.sequence;
        if (record.mac.len == sizeof export->mac)
            memcpy(export->mac, record.mac.ptr, sizeof export->mac);
        if (!write_line(out, &record, err))
            return false;
    }
    *more = !*over;
    return !*over || write_trailer(export, out, err);
}

bool audit_export_get(struct call *call, struct response *res, struct error *err)
{
    struct export export = {.server = server_of(call)};
    struct rows head;
    AUTO_TX tx = NULL;
    if (!read_filter(call, &export.filter, err) ||
        !store_begin_read(export.server->store, &tx, err) ||
        !store_run(tx, &audit_head_get, NULL, 0, call->arena, &head, err))
        return false;
    if (head.n_rows == 1) {
        row_id(&head, 0, AUDIT_HEAD_GET_CHAIN_ID, export.chain_id);
        export.upto = row_int(&head, 0, AUDIT_HEAD_GET_SEQUENCE);
    }
    struct export *kept = alloc(sizeof *kept);
    *kept = export;
    response_stream(res, &(struct response_source){.content_type = "application/jsonl",
                                                   .pull = pull,
                                                   .release = free,
                                                   .state = kept});
    return true;
}

static bool note_verified(struct call *call, struct error *err)
{
    AUTO_TX tx = NULL;
    return store_begin(server_of(call)->store, &tx, err) &&
           audit_call(tx, call, "audit.verify", (struct str){0}, err) && store_commit(&tx, err);
}

/* That the log was changed is an answer, not a failure; who asked is in the log in either case. */
bool audit_verify_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    const char *data_dir = server->config->data_dir;
    char path[PATH_TEXT] = "";
    struct error found = {0};
    int64_t n = 0;
    if (data_dir)
        audit_checkpoint_path(data_dir, path, sizeof path);
    bool is_whole =
        audit_verify_store(server->store, &server->keys, data_dir ? path : NULL, &n, &found);
    if (!is_whole && found.code != ERR_CONFLICT) {
        *err = found;
        return false;
    }
    if (is_whole && !note_verified(call, err))
        return false;
    if (!is_whole) {
        struct audit_entry entry = audit_entry_of(call, "audit.verify");
        entry.outcome = "failed";
        audit_refusal(server, &entry);
    }

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_bool(&json, "verified", is_whole);
    if (is_whole)
        json_int(&json, "entries", n);
    else
        json_string(&json, "problem", found.text);
    json_bool(&json, "has_checkpoint", data_dir && access(path, F_OK) == 0);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}
