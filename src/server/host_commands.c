#include "server/host_commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/id.h"
#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "server/audit_checkpoint.h"
#include "server/audit_verify.h"
#include "server/config.h"
#include "server/master.h"
#include "server/store_verify.h"
#include "store/queries.h"

enum {
    REPORT_MAX = 64 * 1024 * 1024,
    PATH_TEXT = 4096,
    LIMIT_DEFAULT = 1000,
    LIMIT_MAX = 1000000,
    BUSY_MS = 60 * 1000,
    STATUS_MAX = 1024 * 1024
};

/* What such a command works on. */
struct host {
    struct arena arena;
    struct server_config config;
    struct keys keys;
    struct store *store; /* NULL until opened */
};

static void host_finish(struct host *host)
{
    store_close(host->store);
    keys_finish(&host->keys);
    server_config_finish(&host->config);
    arena_finish(&host->arena);
}

const char *host_data_dir(const struct invocation *invocation, struct arena *arena)
{
    const char *given = invocation_value(invocation, "data-dir");
    const char *shared = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (given || getenv("HELMR_DATA_DIR") || getenv("HELMR_DATABASE_URL"))
        return given;
    if (geteuid() == 0)
        return "/var/lib/helmr";
    if (shared && *shared)
        return arena_printf(arena, "%s/helmr", shared);
    return home && *home ? arena_printf(arena, "%s/.local/share/helmr", home) : NULL;
}

static bool host_open(const struct invocation *invocation, struct host *host, struct error *err)
{
    const struct server_flags flags = {.data_dir = host_data_dir(invocation, &host->arena)};
    const struct server_config *config = &host->config;
    if (!server_config_load(&flags, &host->arena, &host->config, err))
        return false;
    const struct key_sources sources = {config->data_dir, &config->master_key, &config->former_keys,
                                        &config->bootstrap_token};
    return keys_load_master(&sources, &host->keys, err);
}

static bool host_open_store(struct host *host, struct error *err)
{
    const struct store_config store = {.url = host->config.database_url,
                                       .readers = 1,
                                       .pool_size = 2,
                                       .busy_ms = BUSY_MS};
    const char *url = host->config.database_url;
    int have, want;
    /* A database that is not there would be made. */
    if (strncmp(url, "sqlite:", 7) == 0 && access(url + 7, R_OK) != 0)
        return error_errno(err, "%s", url + 7);
    if (!store_open(&store, &host->store, err) ||
        !store_schema_version(host->store, &have, &want, err))
        return false;
    return have == want || error_set(err, ERR_CONFLICT,
                                     "the schema is version %d and this program needs %d: run "
                                     "`helmr server migrate`",
                                     have, want);
}

bool audit_verify_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(host_finish) struct host host = {0};
    char checkpoint[PATH_TEXT] = "";
    int64_t n = 0;
    if (!host_open(invocation, &host, err))
        return false;
    if (invocation->n_args > 0) {
        if (!audit_verify_file(invocation->args[0], &host.keys, &n, err))
            return false;
    } else {
        const char *data_dir = host.config.data_dir;
        if (data_dir)
            audit_checkpoint_path(data_dir, checkpoint, sizeof checkpoint);
        if (!host_open_store(&host, err) ||
            !audit_verify_store(host.store, &host.keys, data_dir ? checkpoint : NULL, &n, err))
            return false;
        if (!data_dir || access(checkpoint, F_OK) != 0)
            fprintf(stderr, "helmr: there is no checkpoint: a log that was rewound as a whole "
                            "would not be found\n");
    }
    printf(invocation_has(invocation, "json") ? "{\"verified\":%" PRId64 "}\n"
                                              : "verified: %" PRId64 " entries\n",
           n);
    *exit_code = 0;
    return true;
}

bool key_generate_command(const struct invocation *invocation, int *exit_code,
                          struct error *err UNUSED)
{
    uint8_t key[KEY_LEN];
    char text[64] = {0};
    random_bytes(key, sizeof key);
    base64_encode((struct str){(const char *)key, sizeof key}, text);
    printf(invocation_has(invocation, "json") ? "{\"key\":\"%s\"}\n" : "%s\n", text);
    bytes_wipe(key, sizeof key);
    bytes_wipe(text, sizeof text);
    *exit_code = 0;
    return true;
}

static const char *state_of(const struct keys *keys, enum key_context context, const char *id)
{
    size_t index;
    if (!*id)
        return "unsealed";
    if (!keys_find(keys, context, str_of(id), &index))
        return "unknown";
    return index == 0 ? "current" : "old";
}

/* Checkpoints hang on no master key but on the workers' own; which ones they still need. */
static void write_checkpoint_keys(struct json_writer *json, const struct rows *keys)
{
    for (size_t i = 0; i < keys->n_rows; i++) {
        json_open(json, NULL);
        json_string(json, "context", "checkpoint");
        json_string(json, "key_id", row_text(keys, i, CHECKPOINT_KEYS_KEY_ID));
        json_string(json, "state", "workers");
        json_string(json, "kind", "checkpoints");
        json_int(json, "count", row_int(keys, i, CHECKPOINT_KEYS_N));
        json_close(json);
    }
}

static bool print_json(const struct host *host, const struct master_count *counts, size_t n,
                       const struct rows *checkpoints, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = STATUS_MAX};
    struct json_writer json = json_begin(&text);
    json_open(&json, NULL);
    json_open_list(&json, "keys");
    for (size_t i = 0; i < n; i++) {
        json_open(&json, NULL);
        json_string(&json, "context", key_context_name(counts[i].context));
        json_string(&json, "key_id", counts[i].key_id);
        json_string(&json, "state", state_of(&host->keys, counts[i].context, counts[i].key_id));
        json_string(&json, "kind", counts[i].kind);
        json_int(&json, "count", counts[i].n);
        json_close(&json);
    }
    write_checkpoint_keys(&json, checkpoints);
    json_close_list(&json);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    printf("%.*s\n", (int)text.len, text.bytes);
    return true;
}

/* Audit entries stay under their key, so they do not count as something that hangs on it. */
static void print_table(const struct host *host, const struct master_count *counts, size_t n,
                        const struct rows *checkpoints)
{
    int64_t old = 0;
    printf("%-10s %-17s %-8s %-16s %s\n", "CONTEXT", "KEY ID", "STATE", "KIND", "COUNT");
    for (size_t i = 0; i < n; i++) {
        const char *state = state_of(&host->keys, counts[i].context, counts[i].key_id);
        printf("%-10s %-17s %-8s %-16s %" PRId64 "\n", key_context_name(counts[i].context),
               *counts[i].key_id ? counts[i].key_id : "-", state, counts[i].kind, counts[i].n);
        if (counts[i].context != KEY_AUDIT && strcmp(state, "current") != 0)
            old += counts[i].n;
    }
    for (size_t i = 0; i < checkpoints->n_rows; i++)
        printf("%-10s %-17s %-8s %-16s %" PRId64 "\n", "checkpoint",
               row_text(checkpoints, i, CHECKPOINT_KEYS_KEY_ID), "workers", "checkpoints",
               row_int(checkpoints, i, CHECKPOINT_KEYS_N));
    printf("old_key_count: %" PRId64 "\n", old);
}

bool key_master_status_command(const struct invocation *invocation, int *exit_code,
                               struct error *err)
{
    AUTO(host_finish) struct host host = {0};
    struct master_count *counts;
    struct rows checkpoints;
    size_t n;
    AUTO_TX tx = NULL;
    if (!host_open(invocation, &host, err) || !host_open_store(&host, err) ||
        !store_begin_read(host.store, &tx, err) ||
        !master_counts(tx, &host.arena, &counts, &n, err) ||
        !store_run(tx, &checkpoint_keys, NULL, 0, &host.arena, &checkpoints, err))
        return false;
    store_rollback(&tx);
    *exit_code = 0;
    if (invocation_has(invocation, "json"))
        return print_json(&host, counts, n, &checkpoints, err);
    print_table(&host, counts, n, &checkpoints);
    return true;
}

bool key_master_rotate_command(const struct invocation *invocation, int *exit_code,
                               struct error *err)
{
    static const char set_by_hand[] =
        "HELMR_MASTER_KEY is set, so nothing was changed. To rotate, set for the next start:\n"
        "  HELMR_MASTER_KEY      a new key: `helmr key generate`\n"
        "  HELMR_MASTER_KEY_OLD  the key that is in HELMR_MASTER_KEY now, then a comma and the "
        "old ones\n";
    AUTO(host_finish) struct host host = {0};
    bool as_json = invocation_has(invocation, "json");
    char key_id[KEY_ID_TEXT];
    if (!host_open(invocation, &host, err))
        return false;
    if (secret_is_set(&host.config.master_key) || secret_is_set(&host.config.former_keys)) {
        *exit_code = 0;
        fputs(as_json ? "{\"rotated\":false}\n" : set_by_hand, stdout);
        return true;
    }
    if (!host.config.data_dir)
        return error_set(err, ERR_INVALID, "name the data directory with --data-dir");
    if (!master_rotate(host.config.data_dir, key_id, err))
        return false;
    *exit_code = 0;
    printf(as_json ? "{\"rotated\":true,\"secret_key_id\":\"%s\"}\n"
                   : "rotated: restart the server, then run `helmr secret reencrypt`\n"
                     "secret_key_id: %s\n",
           key_id);
    return true;
}

static bool read_limit(const struct invocation *invocation, int64_t *limit, struct error *err)
{
    const char *text = invocation_value(invocation, "limit");
    char *end = NULL;
    *limit = text ? strtoll(text, &end, 10) : LIMIT_DEFAULT;
    return (!text || (*text && !*end && *limit >= 1 && *limit <= LIMIT_MAX)) ||
           error_set(err, ERR_INVALID, "--limit must be a number from 1 to %d", LIMIT_MAX);
}

bool secret_reencrypt_command(const struct invocation *invocation, int *exit_code,
                              struct error *err)
{
    AUTO(host_finish) struct host host = {0};
    int64_t limit, done, remaining;
    if (!read_limit(invocation, &limit, err) || !host_open(invocation, &host, err) ||
        !host_open_store(&host, err) ||
        !master_reencrypt(host.store, &host.keys, limit, &done, &remaining, err))
        return false;
    printf(invocation_has(invocation, "json")
               ? "{\"reencrypted\":%" PRId64 ",\"remaining_old_key_count\":%" PRId64 "}\n"
               : "reencrypted: %" PRId64 "\nremaining_old_key_count: %" PRId64 "\n",
           done, remaining);
    *exit_code = 0;
    return true;
}

static void close_blobs(struct blob_store **blobs)
{
    blob_store_close(*blobs);
}

/* With --json everything is one document, which is begun before the first fault is known. */
struct damage_report {
    struct buf text;
    struct json_writer json;
};

static void print_damage(void *arg UNUSED, const char *id, const char *class, const char *text)
{
    printf("damaged: %s %s: %s\n", class, id, text);
}

static void note_damage(void *arg, const char *id, const char *class, const char *text)
{
    struct damage_report *report = arg;

    json_open(&report->json, NULL);
    json_string(&report->json, "id", id);
    json_string(&report->json, "class", class);
    json_string(&report->json, "error", text);
    json_close(&report->json);
}

static void finish_report(struct damage_report *report)
{
    buf_finish(&report->text);
}

static bool print_report(struct damage_report *report, const struct store_verify *verify,
                         struct error *err)
{
    json_close_list(&report->json);
    json_int(&report->json, "objects", verify->n_objects);
    json_int(&report->json, "bytes", verify->n_bytes);
    json_close(&report->json);
    if (!json_end(&report->json, err))
        return false;
    printf("%.*s\n", (int)report->text.len, report->text.bytes);
    return true;
}

bool store_verify_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(host_finish) struct host host = {0};
    AUTO(close_blobs) struct blob_store *blobs = NULL;
    AUTO(finish_report) struct damage_report report = {.text = {.max = REPORT_MAX}};
    bool as_json = invocation_has(invocation, "json");
    if (!host_open(invocation, &host, err) || !host_open_store(&host, err))
        return false;
    /* A store that is not there would be made. */
    if (access(host.config.store_dir, R_OK) != 0)
        return error_errno(err, "%s", host.config.store_dir);
    if (!blob_store_open(host.config.store_dir, &blobs, err))
        return false;
    struct store_verify verify = {.store = host.store,
                                  .blobs = blobs,
                                  .keys = &host.keys,
                                  .complain = as_json ? note_damage : print_damage,
                                  .arg = &report};
    report.json = json_begin(&report.text);
    json_open(&report.json, NULL);
    json_open_list(&report.json, "damaged");
    if (!store_verify_all(&verify, err))
        return false;
    *exit_code = verify.n_damaged > 0;
    if (as_json)
        return print_report(&report, &verify, err);
    printf("verified: %" PRId64 " objects, %" PRId64 " MiB, %" PRId64 " damaged\n",
           verify.n_objects, verify.n_bytes >> 20, verify.n_damaged);
    return true;
}
