#include "server/master.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/id.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "server/audit.h"
#include "server/secret_seal.h"
#include "store/queries.h"

enum { PATH_TEXT = 4096, KEY_FILE_MAX = 4096, KINDS_MAX = 512 };

static bool is_ours(const struct keys *keys, enum key_context context, struct str id)
{
    size_t index;
    return keys_find(keys, context, id, &index);
}

static bool refuse(enum key_context context, const char *what, struct str id, struct error *err)
{
    return error_set(err, ERR_CONFLICT,
                     "%s was made under another master key (key id %.*s, %s): HELMR_MASTER_KEY is "
                     "not the key of this database, or HELMR_MASTER_KEY_OLD lacks a former one; "
                     "nothing was changed",
                     what, (int)id.len, id.ptr, key_context_name(context));
}

/* The last entry of the audit log names the key that wrote to this database last. */
static bool check_head(struct tx *tx, const struct keys *keys, struct arena *arena,
                       struct error *err)
{
    struct rows head;
    if (!store_run(tx, &audit_head_get, NULL, 0, arena, &head, err))
        return false;
    struct str id = head.n_rows ? row_str(&head, 0, AUDIT_HEAD_GET_KEY_ID) : (struct str){0};
    return id.len == 0 || is_ours(keys, KEY_AUDIT, id) ||
           refuse(KEY_AUDIT, "the audit log", id, err);
}

/* Plain ones, from before, are under no key. Blobs move to the current key by themselves, so that
 * one under an unknown key was left behind too early; versions never do, and age out. */
static bool check_objects(struct tx *tx, const struct keys *keys, struct arena *arena,
                          struct error *err)
{
    struct rows rows;
    if (!store_run(tx, &key_ids_of_objects, NULL, 0, arena, &rows, err))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++) {
        struct str id = row_str(&rows, i, KEY_IDS_OF_OBJECTS_KEY_ID);
        if (id.len == 0 || is_ours(keys, KEY_STORE, id))
            continue;
        if (str_equal(row_str(&rows, i, KEY_IDS_OF_OBJECTS_KIND), STR("blobs")))
            return refuse(KEY_STORE, "a blob of the store", id, err);
        log_warn("versions under a key that is not configured cannot be read",
                 LOG_SLICE("key_id", id));
    }
    return true;
}

/* A sealed value that could not be opened is a loss; a hash that no key of ours has made is a
 * credential that is over, as long as others show that the key is the right one. */
bool master_check(struct tx *tx, const struct keys *keys, struct arena *arena, struct error *err)
{
    struct rows hashes, sealed;
    size_t n_ours = 0, other = SIZE_MAX;
    if (!check_head(tx, keys, arena, err) || !check_objects(tx, keys, arena, err) ||
        !STORE(tx, &key_ids_of_hashes, arena, &hashes, err, V_INT(time_now_ms())) ||
        !store_run(tx, &key_ids_of_sealed, NULL, 0, arena, &sealed, err))
        return false;
    for (size_t i = 0; i < sealed.n_rows; i++) {
        struct str id = row_str(&sealed, i, KEY_IDS_OF_SEALED_KEY_ID);
        if (!is_ours(keys, KEY_SECRET, id))
            return refuse(KEY_SECRET, "a stored secret", id, err);
    }
    for (size_t i = 0; i < hashes.n_rows; i++) {
        if (is_ours(keys, KEY_AUTH, row_str(&hashes, i, KEY_IDS_OF_HASHES_KEY_ID)))
            n_ours++;
        else
            other = i;
    }
    if (other == SIZE_MAX)
        return true;
    struct str id = row_str(&hashes, other, KEY_IDS_OF_HASHES_KEY_ID);
    if (n_ours == 0 && sealed.n_rows == 0)
        return refuse(KEY_AUTH, "a credential", id, err);
    log_warn("credentials of a key that is not configured are void",
             LOG_STR("kind", row_text(&hashes, other, KEY_IDS_OF_HASHES_KIND)),
             LOG_SLICE("key_id", id));
    return true;
}

static size_t add_counts(enum key_context context, const struct rows *rows,
                         struct master_count *counts, size_t n)
{
    for (size_t i = 0; i < rows->n_rows && n < KINDS_MAX; i++)
        counts[n++] = (struct master_count){context, row_text(rows, i, 1), row_text(rows, i, 0),
                                            row_int(rows, i, 2)};
    return n;
}

bool master_counts(struct tx *tx, struct arena *arena, struct master_count **counts, size_t *n,
                   struct error *err)
{
    struct rows hashes, sealed, objects, audit;
    if (!STORE(tx, &key_ids_of_hashes, arena, &hashes, err, V_INT(time_now_ms())) ||
        !store_run(tx, &key_ids_of_sealed, NULL, 0, arena, &sealed, err) ||
        !store_run(tx, &key_ids_of_objects, NULL, 0, arena, &objects, err) ||
        !store_run(tx, &key_ids_of_audit, NULL, 0, arena, &audit, err))
        return false;
    *counts = arena_array(arena, KINDS_MAX, sizeof **counts);
    *n = add_counts(KEY_AUTH, &hashes, *counts, 0);
    *n = add_counts(KEY_SECRET, &sealed, *counts, *n);
    *n = add_counts(KEY_STORE, &objects, *counts, *n);
    *n = add_counts(KEY_AUDIT, &audit, *counts, *n);
    return true;
}

static void make_key_line(char line[64])
{
    uint8_t key[KEY_LEN];
    random_bytes(key, sizeof key);
    memset(line, 0, 64);
    base64_encode((struct str){(const char *)key, sizeof key}, line);
    line[strlen(line)] = '\n';
    bytes_wipe(key, sizeof key);
}

static bool read_old(const char *path, char **text, struct error *err)
{
    if (file_read(path, KEY_FILE_MAX, text, err))
        return true;
    *text = NULL;
    return err->sys == ENOENT;
}

/* The former keys first: a crash between the two leaves the key both current and former, and
 * never one that is nowhere. */
bool master_rotate(const char *data_dir, char key_id[KEY_ID_TEXT], struct error *err)
{
    char path[PATH_TEXT], old_path[PATH_TEXT], line[64];
    AUTO_FREE char *current = NULL, *old = NULL;
    AUTO(buf_finish) struct buf list = {.max = (size_t)2 * KEY_FILE_MAX};
    snprintf(path, sizeof path, "%s/keys/master", data_dir);
    snprintf(old_path, sizeof old_path, "%s/keys/master.old", data_dir);
    if (!file_read(path, KEY_FILE_MAX, &current, err) || !read_old(old_path, &old, err))
        return false;
    const struct str space = STR(" \t\r\n");
    struct str former = str_trim(str_of(old ? old : ""), space);
    make_key_line(line);
    const struct secret unset = {0};
    bool ok =
        buf_append(&list, str_trim(str_of(current), space), err) &&
        (former.len == 0 || (buf_append(&list, STR(","), err) && buf_append(&list, former, err))) &&
        buf_append(&list, STR("\n"), err) && file_publish(old_path, buf_str(&list), 0600, err) &&
        file_publish(path, str_of(line), 0600, err);
    bytes_wipe(line, sizeof line);
    bytes_wipe(current, strlen(current));
    if (old)
        bytes_wipe(old, strlen(old));
    if (list.bytes)
        bytes_wipe(list.bytes, list.len);
    AUTO(keys_finish) struct keys keys = {0};
    const struct key_sources sources = {data_dir, &unset, &unset, &unset};
    if (!ok || !keys_load_master(&sources, &keys, err))
        return false;
    snprintf(key_id, KEY_ID_TEXT, "%s", keys.ids[KEY_SECRET]);
    return true;
}

static bool rewrap_one(struct store *store, const struct keys *keys, const struct rows *rows,
                       size_t row, int64_t *done, struct error *err)
{
    AUTO(buf_finish) struct buf wrapped = {0};
    struct rows changed = {0};
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_TX tx = NULL;
    struct str name = row_str(rows, row, SECRETS_UNDER_OTHER_KEYS_NAME);
    const struct stored_secret stored = {row_str(rows, row, SECRETS_UNDER_OTHER_KEYS_SEALED),
                                         row_str(rows, row, SECRETS_UNDER_OTHER_KEYS_WRAPPED),
                                         row_str(rows, row, SECRETS_UNDER_OTHER_KEYS_KEY_ID)};
    if (!secret_rewrap(keys, row_text(rows, row, SECRETS_UNDER_OTHER_KEYS_ENVIRONMENT_ID), name,
                       &stored, &wrapped, err))
        return error_wrap(err, "secret %.*s", (int)name.len, name.ptr);
    if (!store_begin(store, &tx, err) ||
        !STORE(tx, &secret_rewrap_row, &arena, &changed, err,
               V_STR(row_str(rows, row, SECRETS_UNDER_OTHER_KEYS_ID)), V_BYTES(stored.wrapped),
               V_BYTES(buf_str(&wrapped)), V_TEXT(keys->ids[KEY_SECRET])) ||
        !store_commit(&tx, err))
        return false;
    *done += changed.n_changed;
    return true;
}

/* A server that does not know the new key yet could not open what is wrapped under it. */
static bool is_in_use(struct tx *tx, const struct keys *keys, struct arena *arena,
                      struct error *err)
{
    struct rows head;
    if (!store_run(tx, &audit_head_get, NULL, 0, arena, &head, err))
        return false;
    return head.n_rows == 0 ||
           str_equal(row_str(&head, 0, AUDIT_HEAD_GET_KEY_ID), str_of(keys->ids[KEY_AUDIT])) ||
           error_set(err, ERR_CONFLICT,
                     "no server has started under the current master key: restart it first");
}

static bool audit_reencryption(struct store *store, const struct keys *keys, int64_t done,
                               struct error *err)
{
    char subject[64];
    snprintf(subject, sizeof subject, "%" PRId64, done);
    const struct audit_entry entry = {.actor_type = "system",
                                      .actor_name = "helmr secret reencrypt",
                                      .action = "secret.reencrypt",
                                      .subject = str_of(subject)};
    AUTO_TX tx = NULL;
    return done == 0 || (store_begin(store, &tx, err) && audit_write_under(tx, keys, &entry, err) &&
                         store_commit(&tx, err));
}

bool master_reencrypt(struct store *store, const struct keys *keys, int64_t limit, int64_t *done,
                      int64_t *remaining, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct value current = V_TEXT(keys->ids[KEY_SECRET]);
    struct rows rows, count;
    *done = 0;
    {
        AUTO_TX tx = NULL;
        if (!store_begin_read(store, &tx, err) || !is_in_use(tx, keys, &arena, err) ||
            !STORE(tx, &secrets_under_other_keys, &arena, &rows, err, current, V_TEXT(""),
                   V_INT(limit)))
            return false;
    }
    for (size_t i = 0; i < rows.n_rows; i++)
        if (!rewrap_one(store, keys, &rows, i, done, err))
            return false;
    if (!audit_reencryption(store, keys, *done, err))
        return false;
    AUTO_TX tx = NULL;
    if (!store_begin_read(store, &tx, err) ||
        !STORE(tx, &secrets_count_other_keys, &arena, &count, err, current))
        return false;
    *remaining = row_int(&count, 0, SECRETS_COUNT_OTHER_KEYS_N);
    return true;
}
