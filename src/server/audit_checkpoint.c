#include "server/audit_checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "server/audit.h"
#include "store/queries.h"

enum { FILE_MAX = 4096, RENEW_MS = 5000, PATH_TEXT = 4096 };

struct content {
    struct str chain_id, mac, key_id, seal;
    int64_t sequence;
};

static const struct json_field content_fields[] = {
    {"chain_id", JSON_TEXT, offsetof(struct content, chain_id), REQUIRED, .max = ID_LEN},
    {"sequence", JSON_INTEGER, offsetof(struct content, sequence), REQUIRED, .max = INT64_MAX},
    {"mac", JSON_TEXT, offsetof(struct content, mac), REQUIRED},
    {"key_id", JSON_TEXT, offsetof(struct content, key_id), REQUIRED},
    {"seal", JSON_TEXT, offsetof(struct content, seal), REQUIRED},
    {0},
};

void audit_checkpoint_path(const char *data_dir, char *path, size_t size)
{
    snprintf(path, size, "%s/keys/audit.head", data_dir);
}

static bool read_bytes(struct str text, uint8_t bytes[BLAKE2B_LEN])
{
    return text.len == (size_t)2 * BLAKE2B_LEN && hex_decode(text, bytes, BLAKE2B_LEN);
}

static struct str bytes_of(const uint8_t bytes[BLAKE2B_LEN])
{
    return (struct str){(const char *)bytes, BLAKE2B_LEN};
}

bool audit_checkpoint_read(const char *path, const struct keys *keys,
                           struct audit_checkpoint *checkpoint, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FREE char *text = NULL;
    struct content content;
    uint8_t seal[BLAKE2B_LEN], want[BLAKE2B_LEN];
    size_t key;
    *checkpoint = (struct audit_checkpoint){0};
    if (!file_read(path, FILE_MAX, &text, err))
        return err->sys == ENOENT;
    if (!json_read(str_of(text), content_fields, &content, sizeof content, &arena, err))
        return error_wrap(err, "%s", path);
    if (!keys_find(keys, KEY_AUDIT, content.key_id, &key))
        return error_set(err, ERR_CONFLICT, "%s is under key id %.16s, which is not configured",
                         path, arena_text(&arena, content.key_id));
    snprintf(checkpoint->chain_id, sizeof checkpoint->chain_id, "%s",
             arena_text(&arena, content.chain_id));
    checkpoint->sequence = content.sequence;
    const struct audit_end end = {str_of(checkpoint->chain_id), content.sequence,
                                  bytes_of(checkpoint->mac)};
    bool is_read = read_bytes(content.mac, checkpoint->mac) && read_bytes(content.seal, seal);
    audit_seal(keys_subkey(keys, KEY_AUDIT, key), "checkpoint", &end, want);
    if (!is_read || !bytes_equal_constant_time(bytes_of(seal), bytes_of(want)))
        return error_set(err, ERR_CONFLICT, "%s was changed: its seal is wrong", path);
    checkpoint->is_there = true;
    return true;
}

static bool write_file(const struct server *server, const struct audit_end *end, struct error *err)
{
    char path[PATH_TEXT], mac[2 * BLAKE2B_LEN + 1], seal_text[2 * BLAKE2B_LEN + 1];
    uint8_t seal[BLAKE2B_LEN];
    audit_seal(keys_subkey(&server->keys, KEY_AUDIT, 0), "checkpoint", end, seal);
    hex_encode(end->mac, mac);
    hex_encode(bytes_of(seal), seal_text);
    AUTO(buf_finish) struct buf text = {.max = FILE_MAX};
    struct json_writer json = json_begin(&text);
    json_open(&json, NULL);
    json_text(&json, "chain_id", end->chain_id);
    json_int(&json, "sequence", end->sequence);
    json_string(&json, "mac", mac);
    json_string(&json, "key_id", server->keys.ids[KEY_AUDIT]);
    json_string(&json, "seal", seal_text);
    json_close(&json);
    audit_checkpoint_path(server->config->data_dir, path, sizeof path);
    return json_end(&json, err) && buf_append(&text, STR("\n"), err) &&
           file_publish(path, buf_str(&text), 0600, err);
}

static bool is_in_log(struct server *server, const struct audit_checkpoint *checkpoint,
                      bool *is_there, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows head, entry;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server->store, &tx, err) ||
        !store_run(tx, &audit_head_get, NULL, 0, &arena, &head, err) ||
        !STORE(tx, &audit_mac_get, &arena, &entry, err, V_INT(checkpoint->sequence)))
        return false;
    *is_there =
        head.n_rows == 1 && entry.n_rows == 1 &&
        str_equal(row_str(&head, 0, AUDIT_HEAD_GET_CHAIN_ID), str_of(checkpoint->chain_id)) &&
        str_equal(row_str(&entry, 0, AUDIT_MAC_GET_MAC), bytes_of(checkpoint->mac));
    return true;
}

static bool tell_of_cut(struct server *server, const char *path, const char *why, struct error *err)
{
    const struct audit_entry entry = {.actor_type = "system",
                                      .action = "audit.cut",
                                      .subject = str_of(why),
                                      .outcome = "failed"};
    AUTO_TX tx = NULL;
    log_error("the audit log has been cut or replaced: run `helmr audit verify`",
              LOG_STR("checkpoint", path), LOG_STR("why", why));
    server->audit_is_cut = true;
    return store_begin(server->store, &tx, err) && audit_write(tx, server, &entry, err) &&
           store_commit(&tx, err);
}

bool audit_checkpoint_begin(struct server *server, struct error *err)
{
    struct audit_checkpoint checkpoint;
    char path[PATH_TEXT], why[sizeof err->text];
    bool is_there = true;
    if (!server->config->data_dir)
        return true;
    /* Where the master key comes from the environment nobody has made the directory yet. */
    snprintf(path, sizeof path, "%s/keys", server->config->data_dir);
    if (!directory_make(path, 0700, err))
        return false;
    audit_checkpoint_path(server->config->data_dir, path, sizeof path);
    if (!audit_checkpoint_read(path, &server->keys, &checkpoint, err)) {
        snprintf(why, sizeof why, "%s", err->text);
        return tell_of_cut(server, path, why, err);
    }
    if (checkpoint.is_there && !is_in_log(server, &checkpoint, &is_there, err))
        return false;
    snprintf(why, sizeof why, "entry %" PRId64 " of the checkpoint is not in the log",
             checkpoint.sequence);
    return is_there || tell_of_cut(server, path, why, err);
}

void audit_checkpoint_renew(struct server *server, bool is_last)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct error err;
    struct rows head;
    AUTO_TX tx = NULL;
    int64_t now = time_boot_ms();
    if (!server->config->data_dir || server->audit_is_cut ||
        (!is_last && now < server->audit_checkpoint_ms))
        return;
    server->audit_checkpoint_ms = now + RENEW_MS;
    bool ok = store_begin_read(server->store, &tx, &err) &&
              store_run(tx, &audit_head_get, NULL, 0, &arena, &head, &err);
    store_rollback(&tx);
    if (ok && head.n_rows == 1) {
        const struct audit_end end = {row_str(&head, 0, AUDIT_HEAD_GET_CHAIN_ID),
                                      row_int(&head, 0, AUDIT_HEAD_GET_SEQUENCE),
                                      row_str(&head, 0, AUDIT_HEAD_GET_MAC)};
        if (end.sequence <= server->audit_checkpoint_at || end.mac.len != BLAKE2B_LEN)
            return;
        ok = write_file(server, &end, &err);
        if (ok)
            server->audit_checkpoint_at = end.sequence;
    }
    if (!ok)
        log_warn("the audit log's checkpoint is not written", LOG_ERR(&err));
}
