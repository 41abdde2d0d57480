#include "server/audit.h"

#include <stdatomic.h>

#include "base/encode.h"
#include "base/log.h"
#include "base/time.h"
#include "server/audit_chain.h"
#include "server/caller.h"
#include "store/queries.h"

enum { TEXT_MAX = 512, REFUSAL_MS = 60 * 1000 };

/* As the log keeps it: valid UTF-8 of bounded length, so that it reads back the same. */
static struct str kept(struct str text)
{
    size_t len = 0, step;
    while (len < text.len && text.ptr[len] &&
           (step = utf8_len((struct str){text.ptr + len, text.len - len})) > 0 &&
           len + step <= TEXT_MAX)
        len += step;
    return (struct str){len ? text.ptr : "", len};
}

static struct str kept_text(const char *text)
{
    return kept(text ? str_of(text) : STR(""));
}

static struct str bytes(const uint8_t *of)
{
    return (struct str){(const char *)of, BLAKE2B_LEN};
}

/* The end of the chain, locked, one entry on; the first of all makes it. */
static bool take_head(struct tx *tx, struct arena *arena, int64_t now, struct rows *rows,
                      struct error *err)
{
    char chain_id[ID_TEXT];
    if (!STORE(tx, &audit_head_take, arena, rows, err, V_INT(now)))
        return false;
    if (rows->n_rows == 1)
        return true;
    id_make(chain_id);
    return STORE(tx, &audit_head_insert, NULL, NULL, err, V_TEXT(chain_id), V_BYTES(STR(""))) &&
           STORE(tx, &audit_head_take, arena, rows, err, V_INT(now)) &&
           (rows->n_rows == 1 || error_set(err, ERR_INTERNAL, "the audit log has no end"));
}

static bool append(struct tx *tx, const struct audit_record *record, struct error *err)
{
    struct value values[3 + AUDIT_TEXTS] = {V_INT(record->sequence), V_INT(record->at_ms)};
    for (size_t i = 0; i < AUDIT_TEXTS; i++)
        values[2 + i] = V_STR(record->texts[i]);
    values[2 + AUDIT_TEXTS] = V_BYTES(record->mac);
    return store_run(tx, &audit_append, values, 3 + AUDIT_TEXTS, NULL, NULL, err);
}

bool audit_write_under(struct tx *tx, const struct keys *keys, const struct audit_entry *entry,
                       struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows head;
    if (!take_head(tx, &arena, time_now_ms(), &head, err))
        return error_wrap(err, "audit log");

    uint8_t mac[BLAKE2B_LEN], seal[BLAKE2B_LEN];
    struct str key = keys_subkey(keys, KEY_AUDIT, 0);
    struct str chain_id = row_str(&head, 0, AUDIT_HEAD_TAKE_CHAIN_ID);
    struct audit_record record = {
        .sequence = row_int(&head, 0, AUDIT_HEAD_TAKE_SEQUENCE),
        .at_ms = row_int(&head, 0, AUDIT_HEAD_TAKE_AT_MS),
        .texts = {[AUDIT_ACTOR_TYPE] = kept_text(entry->actor_type),
                  [AUDIT_ACTOR_ID] = kept_text(entry->actor_id),
                  [AUDIT_ACTOR_NAME] = kept_text(entry->actor_name),
                  [AUDIT_ACTION] = kept_text(entry->action),
                  [AUDIT_PROJECT_ID] = kept_text(entry->project_id),
                  [AUDIT_ENVIRONMENT_ID] = kept_text(entry->environment_id),
                  [AUDIT_SUBJECT] = kept(entry->subject),
                  [AUDIT_REQUEST_ID] = kept_text(entry->request_id),
                  [AUDIT_OUTCOME] = kept_text(entry->outcome ? entry->outcome : "ok"),
                  [AUDIT_KEY_ID] = str_of(keys->ids[KEY_AUDIT])},
        .mac = bytes(mac),
    };
    audit_mac(key, chain_id, row_str(&head, 0, AUDIT_HEAD_TAKE_MAC), &record, mac);
    const struct audit_end end = {chain_id, record.sequence, record.mac};
    audit_seal(key, "head", &end, seal);
    if (!append(tx, &record, err) ||
        !STORE(tx, &audit_head_set, NULL, NULL, err, V_STR(record.texts[AUDIT_KEY_ID]),
               V_BYTES(record.mac), V_BYTES(bytes(seal))))
        return error_wrap(err, "audit log");
    return true;
}

bool audit_write(struct tx *tx, struct server *server, const struct audit_entry *entry,
                 struct error *err)
{
    return audit_write_under(tx, &server->keys, entry, err);
}

struct audit_entry audit_entry_of(const struct call *call, const char *action)
{
    const struct caller *caller = caller_of(call);
    struct audit_entry entry = {.actor_type = "anonymous",
                                .action = action,
                                .request_id = call->id};
    if (!caller)
        return entry;
    switch (caller->kind) {
    case CALLER_NONE: break;
    case CALLER_KEY: entry.actor_type = "key"; break;
    case CALLER_SESSION: entry.actor_type = "user"; break;
    case CALLER_WORKER: entry.actor_type = "worker"; break;
    }
    entry.actor_id = caller->kind == CALLER_SESSION ? caller->user_id : caller->id;
    entry.actor_name = caller->kind == CALLER_SESSION ? caller->email : caller->name;
    entry.project_id = caller->scope.project_id;
    entry.environment_id = caller->scope.environment_id;
    return entry;
}

bool audit_call(struct tx *tx, const struct call *call, const char *action, struct str subject,
                struct error *err)
{
    struct audit_entry entry = audit_entry_of(call, action);
    entry.subject = subject;
    return audit_write(tx, server_of(call), &entry, err);
}

static bool may_write(struct server *server, const struct audit_entry *entry)
{
    const struct str pieces[] = {kept_text(entry->actor_id), kept_text(entry->action),
                                 kept(entry->subject)};
    uint8_t tag[BLAKE2B_LEN];
    keys_tag(&server->keys, KEY_AUDIT, pieces, COUNT_OF(pieces), tag);
    int64_t now = time_boot_ms();
    _Atomic int64_t *slot = &server->refusals_ms[tag[0]];
    int64_t last = atomic_load(slot);
    return (last == 0 || now - last >= REFUSAL_MS) &&
           atomic_compare_exchange_strong(slot, &last, now);
}

void audit_refusal(struct server *server, const struct audit_entry *entry)
{
    struct error err;
    AUTO_TX tx = NULL;
    if (!may_write(server, entry))
        return;
    if (!store_begin(server->store, &tx, &err) || !audit_write(tx, server, entry, &err) ||
        !store_commit(&tx, &err))
        log_warn("a refusal is not in the audit log", LOG_ERR(&err));
}

void audit_denied(const struct call *call, const struct error *err)
{
    if ((err->code != ERR_FORBIDDEN && err->code != ERR_ORIGIN) || !call->match.route)
        return;
    struct audit_entry entry = audit_entry_of(call, "request.denied");
    entry.subject = str_of(call->match.route->pattern);
    entry.outcome = "denied";
    audit_refusal(server_of(call), &entry);
}
