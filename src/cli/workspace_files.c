/* `helmr workspace files list|stat|read|rm|mkdir|mv`. */
#include "cli/workspace_files.h"

#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

const char *files_url(struct api *api, const struct invocation *invocation, const char *route,
                      const char *path, const char *more)
{
    const char *version = invocation_value(invocation, "version");
    const char *source = "";

    if (version)
        source = arena_printf(&api->arena, "&source=version&version_id=%s", api_part(api, version));
    else if (invocation_has(invocation, "live"))
        source = "&source=live";
    return arena_printf(&api->arena, "%s/workspaces/%s/files%s?path=%s%s%s", api->prefix,
                        api_part(api, invocation->args[0]), route, api_part(api, path), source,
                        more);
}

bool files_source_is_clear(const struct invocation *invocation, struct error *err)
{
    return !invocation_has(invocation, "version") || !invocation_has(invocation, "live") ||
           error_set(err, ERR_INVALID, "--version and --live exclude each other");
}

const char *files_base_name(struct api *api, const char *path)
{
    struct str rest = str_trim(str_of(path), STR("/")), part = {0};

    while (str_split(&rest, '/', &part))
        ;
    if (!part.ptr || str_equal(part, STR(".")))
        return "";
    return arena_text(&api->arena, part);
}

void files_print_version(struct api *api, const struct invocation *invocation, struct str answer)
{
    static const struct field fields[] = {
        {"version_id", "version_id", NULL},
    };

    output_row(api, invocation, answer, fields, COUNT_OF(fields));
}

static struct str show_mode(struct str entry, struct arena *arena)
{
    int64_t mode = 0;

    if (!json_find_int(entry, "mode", &mode))
        return STR("");
    return str_of(arena_printf(arena, "%04o", (unsigned)mode & 07777));
}

static struct str show_named(struct str entry, const char *field, struct arena *arena)
{
    struct str name = output_value(entry, field, arena);
    struct str target = output_value(entry, "target", arena);

    if (target.len == 0)
        return name;
    return str_of(
        arena_printf(arena, "%.*s -> %.*s", (int)name.len, name.ptr, (int)target.len, target.ptr));
}

static struct str show_name(struct str entry, struct arena *arena)
{
    return show_named(entry, "name", arena);
}

static struct str show_path(struct str entry, struct arena *arena)
{
    return show_named(entry, "path", arena);
}

bool workspace_files_list_command(const struct invocation *invocation, int *exit_code,
                                  struct error *err)
{
    bool is_recursive = invocation_has(invocation, "recursive");
    const struct field columns[] = {
        {"TYPE",  "type",       NULL                                },
        {"MODE",  NULL,         show_mode                           },
        {"SIZE",  "size_bytes", NULL                                },
        {"MTIME", "mtime",      NULL                                },
        {"NAME",  NULL,         is_recursive ? show_path : show_name},
    };
    const char *name = invocation_value(invocation, "name"), *more = "";
    AUTO(api_finish) struct api api = {0};

    *exit_code = 0;
    if (!files_source_is_clear(invocation, err) || !api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    if (name)
        more = arena_printf(&api.arena, "&name=%s", api_part(&api, name));
    if (is_recursive)
        more = arena_printf(&api.arena, "%s&recursive=1", more);
    const struct listing listing = {
        .path = files_url(&api, invocation, "", invocation->n_args > 1 ? invocation->args[1] : "",
                          more),
        .field = "entries",
        .columns = columns,
        .n_columns = COUNT_OF(columns),
    };
    return output_list(&api, invocation, &listing, err);
}

bool workspace_files_stat_command(const struct invocation *invocation, int *exit_code,
                                  struct error *err)
{
    static const struct field labels[] = {
        {"Path",   "path",       NULL     },
        {"Type",   "type",       NULL     },
        {"Mode",   NULL,         show_mode},
        {"Size",   "size_bytes", NULL     },
        {"Mtime",  "mtime",      NULL     },
        {"Target", "target",     NULL     },
    };
    AUTO(api_finish) struct api api = {0};
    struct str entry;

    *exit_code = 0;
    return files_source_is_clear(invocation, err) &&
           api_open(invocation, API_ANY, NULL, &api, err) &&
           api_send(&api, "GET", files_url(&api, invocation, "/stat", invocation->args[1], ""),
                    (struct str){0}, &entry, err) &&
           output_object(&api, invocation, entry, labels, COUNT_OF(labels), err);
}

bool workspace_files_read_command(const struct invocation *invocation, int *exit_code,
                                  struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *path = invocation->args[1];
    int64_t size = 0;
    struct str entry;

    *exit_code = 0;
    if (!files_source_is_clear(invocation, err) ||
        !api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "GET", files_url(&api, invocation, "/stat", path, ""), (struct str){0},
                  &entry, err))
        return false;
    struct str type = output_value(entry, "type", &api.arena);
    if (!str_equal(type, STR("file")) || !json_find_int(entry, "size_bytes", &size))
        return error_set(err, ERR_FILE_NOT_REGULAR, "%s is a %.*s, no regular file", path,
                         (int)type.len, type.ptr);
    return files_download(&api, files_url(&api, invocation, "/content", path, ""), (uint64_t)size,
                          STDOUT_FILENO, err);
}

bool workspace_files_rm_command(const struct invocation *invocation, int *exit_code,
                                struct error *err)
{
    const char *more = invocation_has(invocation, "recursive") ? "&recursive=1" : "";
    AUTO(api_finish) struct api api = {0};
    struct str answer;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "DELETE", files_url(&api, invocation, "", invocation->args[1], more),
                  (struct str){0}, &answer, err))
        return false;
    files_print_version(&api, invocation, answer);
    return true;
}

/* A POST of these texts. */
static bool post(const struct invocation *invocation, const char *route, const char *const *names,
                 size_t n, struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = API_BODY_MAX};
    struct json_writer json = json_begin(&body);
    AUTO(api_finish) struct api api = {0};
    struct str answer;

    json_open(&json, NULL);
    for (size_t i = 0; i < n; i++)
        json_string(&json, names[i], invocation->args[1 + i]);
    json_close(&json);
    if (!json_end(&json, err) || !api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    const char *path = arena_printf(&api.arena, "%s/workspaces/%s/files%s", api.prefix,
                                    api_part(&api, invocation->args[0]), route);
    if (!api_send(&api, "POST", path, buf_str(&body), &answer, err))
        return false;
    files_print_version(&api, invocation, answer);
    return true;
}

bool workspace_files_mkdir_command(const struct invocation *invocation, int *exit_code,
                                   struct error *err)
{
    static const char *const names[] = {"path"};

    *exit_code = 0;
    return post(invocation, "/directory", names, COUNT_OF(names), err);
}

bool workspace_files_mv_command(const struct invocation *invocation, int *exit_code,
                                struct error *err)
{
    static const char *const names[] = {"from", "to"};

    *exit_code = 0;
    return post(invocation, "/move", names, COUNT_OF(names), err);
}
