/* `helmr audit list|export`: who did what, for those who may read it. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/output.h"

enum { STALL_MS = 60 * 1000 };

static const struct field entry_columns[] = {
    {"SEQUENCE", "sequence",   NULL},
    {"AT",       "at",         NULL},
    {"ACTOR",    "actor.type", NULL},
    {"NAME",     "actor.name", NULL},
    {"ACTION",   "action",     NULL},
    {"SUBJECT",  "subject",    NULL},
    {"OUTCOME",  "outcome",    NULL},
};

/* The path with those of the options that were given as its query. */
static const char *filtered(struct api *api, const struct invocation *invocation, const char *path,
                            const char *const *names, size_t n)
{
    char separator = '?';

    for (size_t i = 0; i < n; i++) {
        const char *value = invocation_value(invocation, names[i]);

        if (!value)
            continue;
        path =
            arena_printf(&api->arena, "%s%c%s=%s", path, separator, names[i], api_part(api, value));
        separator = '&';
    }
    return path;
}

bool audit_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    static const char *const names[] = {"actor", "action", "from", "to", "limit", "cursor"};
    AUTO(api_finish) struct api api = {0};

    *exit_code = 0;
    if (!api_open(invocation, API_LOGIN, NULL, &api, err))
        return false;

    const struct listing listing = {
        .path = filtered(&api, invocation, "/api/audit", names, COUNT_OF(names)),
        .field = "entries",
        .columns = entry_columns,
        .n_columns = COUNT_OF(entry_columns),
        .one_page = true,
    };

    return output_list(&api, invocation, &listing, err);
}

static bool print_bytes(void *arg, struct str bytes)
{
    bool *has_failed = arg;

    *has_failed = fwrite(bytes.ptr, 1, bytes.len, stdout) != bytes.len;
    return !*has_failed;
}

bool audit_export_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    static const char *const names[] = {"actor", "action", "from", "to"};
    AUTO(api_finish) struct api api = {0};
    bool has_failed = false;

    *exit_code = 0;
    if (!api_open(invocation, API_LOGIN, NULL, &api, err))
        return false;

    const struct http_request request = {
        .method = "GET",
        .path = filtered(&api, invocation, "/api/audit/export", names, COUNT_OF(names)),
        .stall_ms = STALL_MS,
        .sink = print_bytes,
        .sink_arg = &has_failed,
    };

    return api_exchange(&api, &request, NULL, err) &&
           (!has_failed || error_errno(err, "writing the export"));
}
