/* `helmr deploy`: the source of a project to the server, and its build followed to the end. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/scope.h"
#include "cli/upload.h"
#include "model/duration.h"
#include "model/name.h"

enum { ENV_FILE_MAX = 256 * 1024, UPLOAD_STALL_MS = 120 * 1000, DEFAULT_TIMEOUT_MIN = 20 };

struct deploy {
    const struct invocation *invocation;
    struct api api;
    struct progress progress;
    struct arena arena;
    const char *root;
    struct env_pair *env;
    size_t n_env;
    int64_t timeout_ms;
    const char *id, *version;
    bool failed; /* the build */
};

static void deploy_finish(struct deploy *deploy)
{
    progress_finish(&deploy->progress);
    api_finish(&deploy->api);
    arena_finish(&deploy->arena);
}

/* A PATH is the project itself; without one it is the nearest above. */
static bool find_root(struct deploy *deploy, struct error *err)
{
    bool has_path = deploy->invocation->n_args > 0;
    const char *start = has_path ? deploy->invocation->args[0] : ".";
    const char *file, *package;
    struct stat info;

    if (!scope_find_config(start, !has_path, &deploy->arena, &deploy->root, &file, err))
        return false;
    if (!deploy->root)
        return error_set(err, ERR_NOT_FOUND,
                         "there is no helmr.config.ts in %s%s: `helmr init` makes one, or name "
                         "the project's directory: helmr deploy PATH",
                         has_path ? start : "this directory", has_path ? "" : " or above it");
    package = arena_printf(&deploy->arena, "%s/package.json", deploy->root);
    if (stat(package, &info) == 0 && S_ISREG(info.st_mode))
        return true;
    return error_set(err, ERR_NOT_FOUND,
                     "there is no package.json beside %s in %s: make one that holds at least "
                     "{\"type\": \"module\"}",
                     file, deploy->root);
}

/* Variables of this process win over those of the file. */
static bool read_env(struct deploy *deploy, struct error *err)
{
    const char *path = invocation_value(deploy->invocation, "env-file");
    AUTO_FREE char *text = NULL;

    if (!path)
        return true;
    if (!file_read(path, ENV_FILE_MAX, &text, err))
        return false;

    const char *kept = arena_text(&deploy->arena, str_of(text));

    if (!env_parse(str_of(kept), &deploy->arena, &deploy->env, &deploy->n_env, err))
        return error_wrap(err, "%s", path);
    for (size_t i = 0; i < deploy->n_env; i++) {
        struct env_pair *pair = &deploy->env[i];
        const char *own = getenv(pair->name);

        if (strncmp(pair->name, "HELMR_", 6) == 0)
            return error_set(err, ERR_INVALID, "%s: %s: names that start with HELMR_ are taken",
                             path, pair->name);
        if (!name_check(NAME_VARIABLE, pair->name, str_of(pair->name), err))
            return error_wrap(err, "%s", path);
        pair->value = own ? own : pair->value;
    }
    return true;
}

static bool read_timeout(struct deploy *deploy, struct error *err)
{
    const char *text = invocation_value(deploy->invocation, "timeout");

    deploy->timeout_ms = DEFAULT_TIMEOUT_MIN * INT64_C(60000);
    if (text && (!duration_parse(str_of(text), &deploy->timeout_ms, err)))
        return error_wrap(err, "--timeout");
    return deploy->timeout_ms > 0 ||
           error_set(err, ERR_INVALID, "--timeout must be longer than nothing");
}

static bool prepare(struct deploy *deploy, struct error *err)
{
    progress_step(&deploy->progress, "Preparing project");
    if (!find_root(deploy, err) || !read_env(deploy, err) || !read_timeout(deploy, err) ||
        !api_open(deploy->invocation, API_ANY, deploy->root, &deploy->api, err))
        return false;
    if (deploy->api.project)
        progress_note(&deploy->progress,
                      "note: the server has no project %s; using its default project",
                      deploy->api.project);
    return true;
}

static void note_skipped(void *arg, const char *path, const char *target)
{
    progress_note(arg, "note: %s is left out: it points outside of the project (%s)", path, target);
}

static void show_upload(void *arg, uint64_t sent, uint64_t total)
{
    progress_upload(arg, sent, total);
}

static bool send_upload(struct deploy *deploy, const struct upload *upload, struct str *deployment,
                        struct error *err)
{
    const struct http_request request = {
        .method = "POST",
        .path = api_path(&deploy->api, "/deployments"),
        .content_type = upload->content_type,
        .body_fd = upload->fd,
        .body_fd_len = upload->len,
        .stall_ms = UPLOAD_STALL_MS,
        .progress = show_upload,
        .progress_arg = &deploy->progress,
    };

    progress_step(&deploy->progress, "Uploading deployment");
    return api_exchange(&deploy->api, &request, deployment, err);
}

static bool send_source(struct deploy *deploy, struct str *deployment, struct error *err)
{
    const struct upload_request request = {
        .root = deploy->root,
        .env = deploy->env,
        .n_env = deploy->n_env,
        .no_cache = invocation_has(deploy->invocation, "no-cache"),
        .skipped = note_skipped,
        .skipped_arg = &deploy->progress,
    };
    AUTO(upload_finish) struct upload upload = {.fd = -1};
    struct str id, version;

    progress_step(&deploy->progress, "Creating archive");
    if (!upload_create(&request, &upload, err) || !send_upload(deploy, &upload, deployment, err))
        return false;
    if (!json_find_text(*deployment, "id", &deploy->arena, &id) ||
        !json_find_text(*deployment, "version", &deploy->arena, &version))
        return error_set(err, ERR_INTERNAL, "the server described a deployment without an id");
    deploy->id = arena_text(&deploy->arena, id);
    deploy->version = arena_text(&deploy->arena, version);
    progress_farewell(&deploy->progress,
                      "helmr: the build of %s goes on: `helmr deployment get %s` shows it, `helmr "
                      "deployment cancel %s` stops it, the same deploy again follows it\n",
                      deploy->version, deploy->version, deploy->version);
    progress_object(&deploy->progress, "deployment_created", NULL, "deployment", *deployment);
    progress_note(&deploy->progress, "Deployment %s queued", deploy->id);
    return true;
}

static enum follow_verdict on_event(void *arg, const struct sse_event *event,
                                    struct error *err UNUSED)
{
    struct deploy *deploy = arg;
    AUTO(arena_finish) struct arena arena = {0};
    struct str kind = output_value(event->data, "kind", &arena);

    progress_event(&deploy->progress, event->data);
    deploy->failed = str_equal(kind, STR("deployment.failed"));
    return deploy->failed || str_equal(kind, STR("deployment.deployed")) ? FOLLOW_END : FOLLOW_ON;
}

/* " (tasks/hello.ts:3)", unless the message says so itself. */
static void print_place(struct str deployment, struct str message, struct arena *arena)
{
    struct str file = output_value(deployment, "error.details.file", arena);
    struct str line = output_value(deployment, "error.details.line", arena);
    bool has_line = line.len > 0 && !str_equal(line, STR("0"));

    if (file.len == 0 || memmem(message.ptr, message.len, file.ptr, file.len))
        return;
    fputs(" (", stderr);
    output_clean(stderr, file);
    fprintf(stderr, "%s%.*s)", has_line ? ":" : "", has_line ? (int)line.len : 0, line.ptr);
}

/* "deployment build: the message (tasks/hello.ts:3)" */
static bool explain_failure(struct deploy *deploy, struct str deployment, int *exit_code)
{
    struct arena *arena = &deploy->arena;
    struct str layer = output_layer(output_value(deployment, "error.layer", arena), arena);
    struct str message = output_value(deployment, "error.message", arena);

    fprintf(stderr, "helmr: %.*s: ", (int)layer.len, layer.ptr);
    output_clean(stderr, message.len ? message : STR("the build failed"));
    print_place(deployment, message, arena);
    putc('\n', stderr);
    *exit_code = 1;
    return true;
}

static bool follow_build(struct deploy *deploy, struct error *err)
{
    AUTO(follow_finish) struct follow follow;

    follow_init(&follow, &deploy->api, api_path(&deploy->api, "/deployments/%s/events", deploy->id),
                on_event, deploy);
    follow.deadline_ms = time_boot_ms() + deploy->timeout_ms;
    bool has_ended = follow_until_end(&follow, err);

    progress_end(&deploy->progress);
    if (has_ended)
        return true;
    if (err->code != ERR_TIMEOUT)
        return false;
    return error_set(err, ERR_TIMEOUT,
                     "the build of %s has not ended in time and goes on: is a worker active "
                     "(`helmr doctor`)? Then: helmr deployment get %s",
                     deploy->version, deploy->version);
}

static bool finish(struct deploy *deploy, const char *phase, struct str deployment)
{
    progress_object(&deploy->progress, "deployment_result", phase, "deployment", deployment);
    if (!deploy->progress.as_json)
        output_line(str_of(deploy->version));
    return true;
}

static bool promote(struct deploy *deploy, struct error *err)
{
    struct str deployment;

    progress_step(&deploy->progress, "Promoting deployment");
    return api_send(&deploy->api, "POST",
                    api_path(&deploy->api, "/deployments/%s/promote", deploy->id), STR("{}"),
                    &deployment, err) &&
           finish(deploy, "promoted", deployment);
}

bool deploy_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(deploy_finish) struct deploy deploy = {.invocation = invocation};
    struct str deployment;

    *exit_code = 0;
    progress_init(&deploy.progress, invocation_has(invocation, "json"));
    if (!prepare(&deploy, err) || !send_source(&deploy, &deployment, err))
        return false;
    if (invocation_has(invocation, "detach"))
        return finish(&deploy, "queued", deployment);
    if (!follow_build(&deploy, err) ||
        !api_send(&deploy.api, "GET", api_path(&deploy.api, "/deployments/%s", deploy.id),
                  (struct str){0}, &deployment, err))
        return false;
    if (deploy.failed)
        return explain_failure(&deploy, deployment, exit_code);
    if (invocation_has(invocation, "skip-promotion"))
        return finish(&deploy, "deployed", deployment);
    progress_object(&deploy.progress, "deployment_result", "deployed", "deployment", deployment);
    return promote(&deploy, err);
}
