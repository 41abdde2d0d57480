#include "server/audit_start.h"

#include <inttypes.h>

#include "server/audit.h"
#include "store/queries.h"

/* A setting as the log sees it. */
struct setting {
    const char *name;
    struct str value;
};

enum { SETTINGS_MAX = 16 };

static struct str text_of(const char *text)
{
    return text ? str_of(text) : STR("");
}

static size_t list_settings(const struct server_config *config, struct arena *arena,
                            struct setting list[SETTINGS_MAX])
{
    const struct setting all[] = {
        {"HELMR_CONTROL_ADDR", text_of(config->address)},
        {"HELMR_DATABASE_URL", text_of(config->database_url)},
        {"HELMR_CAS_URI", text_of(config->store_dir)},
        {"HELMR_PUBLIC_URL", text_of(config->public_url)},
        {"HELMR_PREVIEW_URL", text_of(config->preview_url)},
        {"HELMR_PREVIEW_ADDR", text_of(config->preview_address)},
        {"HELMR_TLS_CERT_FILE", text_of(config->tls_certificate)},
        {"HELMR_TLS_KEY_FILE", text_of(config->tls_key)},
        {"HELMR_TRUSTED_PROXIES", text_of(config->trusted_proxies)},
        {"HELMR_WORKER_GROUPS", text_of(config->worker_groups)},
        {"HELMR_PLAIN_HTTP", config->plain_http ? STR("1") : STR("")},
        {"HELMR_DEV_LOGIN", config->dev_login ? STR("1") : STR("")},
        {"HELMR_WORKER_BOOTSTRAP_TOKEN", secret_reveal(&config->bootstrap_token)},
        {"HELMR_LEASE_TTL", str_of(arena_printf(arena, "%" PRId64, config->lease_ttl_ms))},
        {"HELMR_CANCEL_GRACE", str_of(arena_printf(arena, "%" PRId64, config->cancel_grace_ms))},
        {"HELMR_RUN_MAX_DISPATCHES",
         str_of(arena_printf(arena, "%" PRId64, config->max_dispatches))},
    };
    _Static_assert(COUNT_OF(all) <= SETTINGS_MAX, "there is room for all settings");
    memcpy(list, all, sizeof all);
    return COUNT_OF(all);
}

/* The digest that was kept of a setting; {0} when there is none. */
static struct str find_digest(const struct rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->n_rows; i++)
        if (str_equal(row_str(rows, i, SETTING_LIST_NAME), str_of(name)))
            return row_str(rows, i, SETTING_LIST_DIGEST);
    return (struct str){0};
}

static bool enter(struct server *server, struct tx *tx, const char *action, const char *subject,
                  struct error *err)
{
    const struct audit_entry entry = {.actor_type = "system",
                                      .actor_name = "server",
                                      .action = action,
                                      .subject = str_of(subject)};
    return audit_write(tx, server, &entry, err);
}

/* *names is what changed; at the very first start nothing has. */
static bool compare(struct server *server, struct tx *tx, struct arena *arena, const char **names,
                    struct error *err)
{
    struct setting list[SETTINGS_MAX];
    struct rows rows;
    size_t n = list_settings(server->config, arena, list);
    if (!store_run(tx, &setting_list, NULL, 0, arena, &rows, err))
        return false;
    *names = "";
    for (size_t i = 0; i < n; i++) {
        const struct str pieces[] = {STR("setting"), str_of(list[i].name), list[i].value};
        struct str before = find_digest(&rows, list[i].name);
        uint8_t tag[BLAKE2B_LEN];
        keys_tag(&server->keys, KEY_AUDIT, pieces, COUNT_OF(pieces), tag);
        struct str now = {(const char *)tag, sizeof tag};
        if (str_equal(before, now))
            continue;
        bool is_same = keys_tag_is_ours(&server->keys, KEY_AUDIT, pieces, COUNT_OF(pieces), before);
        if (before.ptr && !is_same)
            *names = arena_printf(arena, "%s%s%s", *names, **names ? " " : "", list[i].name);
        if (!STORE(tx, &setting_put, NULL, NULL, err, V_TEXT(list[i].name), V_BYTES(now)))
            return false;
    }
    return true;
}

bool audit_start(struct server *server, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const char *names;
    struct rows head;
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) ||
        !store_run(tx, &audit_head_get, NULL, 0, &arena, &head, err) ||
        !compare(server, tx, &arena, &names, err))
        return false;
    struct str before = head.n_rows ? row_str(&head, 0, AUDIT_HEAD_GET_KEY_ID) : (struct str){0};
    bool is_rotated = before.len > 0 && !str_equal(before, str_of(server->keys.ids[KEY_AUDIT]));
    return (!is_rotated || enter(server, tx, "master_key.rotate",
                                 arena_printf(&arena, "%s %s", arena_text(&arena, before),
                                              server->keys.ids[KEY_AUDIT]),
                                 err)) &&
           (!*names || enter(server, tx, "config.change", names, err)) &&
           enter(server, tx, "server.start", HELMR_VERSION, err) && store_commit(&tx, err);
}
