/* `helmr key …`: API keys, which only a person may make. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "model/name.h"
#include "model/permission.h"

static const struct field key_columns[] = {
    {"ID",         "id",           NULL},
    {"NAME",       "name",         NULL},
    {"KEY PREFIX", "key_prefix",   NULL},
    {"STATUS",     "status",       NULL},
    {"EXPIRES",    "expires_at",   NULL},
    {"LAST USED",  "last_used_at", NULL},
};

bool key_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *filter = invocation_value(invocation, "filter");

    *exit_code = 0;
    if (!api_open(invocation, API_LOGIN, NULL, &api, err))
        return false;

    const struct listing listing = {
        .path = api_path(&api, "/api-keys%s%s", filter ? "?filter=" : "",
                         filter ? api_part(&api, filter) : ""),
        .field = "api_keys",
        .columns = key_columns,
        .n_columns = COUNT_OF(key_columns),
    };

    return output_list(&api, invocation, &listing, err);
}

static bool write_scopes(const struct invocation *invocation, struct json_writer *json,
                         struct error *err)
{
    const char *name;

    for (size_t i = 0; (name = invocation_nth(invocation, "permission", i)) != NULL; i++) {
        enum permission permission;
        bool is_all = strcmp(name, "all") == 0;

        if (!is_all &&
            !(permission_parse(str_of(name), &permission) && permission_is_grantable(permission)))
            return error_set(err, ERR_UNKNOWN_PERMISSION,
                             "%.64s is not a permission of keys; `helmr key create --help` lists "
                             "them",
                             name);
        for (enum permission p = 0; p < PERM_COUNT; p++) {
            if (permission_is_grantable(p) && (is_all || p == permission))
                json_string(json, NULL, permission_name(p));
        }
    }
    return true;
}

static bool write_expiry(const struct invocation *invocation, struct json_writer *json,
                         struct error *err)
{
    static const char *const known[] = {"30", "90", "365"};
    const char *days = invocation_value(invocation, "expires-in-days");

    if (days && strcmp(days, "never") == 0) {
        json_null(json, "expires_in_days");
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        if (strcmp(days ? days : "90", known[i]) == 0) {
            json_raw(json, "expires_in_days", str_of(known[i]));
            return true;
        }
    }
    return error_set(err, ERR_INVALID, "--expires-in-days must be 30, 90, 365 or never");
}

static bool key_body(const struct invocation *invocation, struct buf *body, struct error *err)
{
    struct json_writer json = json_begin(body);

    if (!invocation_has(invocation, "permission"))
        return error_set(err, ERR_INVALID,
                         "say what the key may do: --permission runs:read (repeat), or "
                         "--permission all");
    if (!name_check(NAME_TITLE, "the name", str_of(invocation->args[0]), err))
        return false;
    json_open(&json, NULL);
    json_string(&json, "name", invocation->args[0]);
    if (!write_expiry(invocation, &json, err))
        return false;
    json_open_list(&json, "permissions");
    json_open(&json, NULL);
    json_open_list(&json, "scopes");
    if (!write_scopes(invocation, &json, err))
        return false;
    json_close_list(&json);
    json_close(&json);
    json_close_list(&json);
    json_close(&json);
    return json_end(&json, err);
}

bool key_create_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(buf_finish) struct buf body = {.max = API_BODY_MAX};
    struct str answer, raw;

    *exit_code = 0;
    if (!key_body(invocation, &body, err) || !api_open(invocation, API_LOGIN, NULL, &api, err) ||
        !api_send(&api, "POST", api_path(&api, "/api-keys"), buf_str(&body), &answer, err))
        return false;
    if (invocation_has(invocation, "json")) {
        output_line(answer);
        return true;
    }
    if (!json_find_text(answer, "raw_key", &api.arena, &raw))
        return error_set(err, ERR_INTERNAL, "the server made a key and did not show it");
    output_line(raw);
    return true;
}

bool key_revoke_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *id = invocation->args[0];
    char question[128];
    bool agreed;

    *exit_code = 0;
    snprintf(question, sizeof question, "Revoke the key %.48s? What uses it will stop working.",
             id);
    if (!invocation_confirm(invocation, question, &agreed, err))
        return false;
    if (!agreed) {
        *exit_code = 1;
        return true;
    }
    if (!api_open(invocation, API_LOGIN, NULL, &api, err) ||
        !api_send(&api, "DELETE", api_path(&api, "/api-keys/%s", api_part(&api, id)),
                  (struct str){0}, NULL, err))
        return false;
    if (invocation_has(invocation, "json"))
        printf("{\"id\":\"%s\",\"status\":\"revoked\"}\n", id);
    else
        printf("%s revoked\n", id);
    return true;
}
