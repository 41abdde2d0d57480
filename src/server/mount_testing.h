/* For tests of mounts: a workspace, a worker that may mount it, and what people do in it. */
#pragma once

#include "base/json.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"

#define MOUNT_KEYS                                                                               \
    OPERATOR ",\"workspace-lifecycle:manage\",\"workspace-exec:create\",\"workspace-exec:"       \
             "read\",\"workspace-exec:manage\",\"workspace-pty:create\",\"workspace-pty:read\"," \
             "\"workspace-pty:manage\",\"workspace-versions:read\",\"session-input:send\""

struct yard {
    struct service *service;
    struct test_worker worker;
    const char *key;
    char workspace[ID_TEXT], mount[ID_TEXT], process[ID_TEXT];
    int64_t generation;
};

/* A deployed project, and a workspace of its sandbox that nobody works in. */
static inline bool yard_set(struct service *service, struct yard *yard)
{
    *yard = (struct yard){.service = service, .key = service_make_key(service, MOUNT_KEYS)};
    if (!worker_join(&yard->worker, service, "one") ||
        !service_build(service, &yard->worker, yard->key) ||
        service_ask(service, yard->key, "POST", "/api/workspaces", "{\"sandbox_id\":\"box\"}") !=
            201)
        return false;
    snprintf(yard->workspace, ID_TEXT, "%s", service_text(service, "workspace.id"));
    return *yard->workspace;
}

/* A path below the workspace. */
static inline const char *yard_path(struct yard *yard, const char *rest)
{
    return arena_printf(&yard->service->arena, "/api/workspaces/%s%s", yard->workspace, rest);
}

static inline int yard_post(struct yard *yard, const char *rest, const char *body)
{
    return service_ask(yard->service, yard->key, "POST", yard_path(yard, rest), body);
}

static inline int yard_get(struct yard *yard, const char *rest)
{
    return service_ask(yard->service, yard->key, "GET", yard_path(yard, rest), NULL);
}

/* A path below the newest program. */
static inline const char *yard_process(struct yard *yard, const char *kind, const char *rest)
{
    return arena_printf(&yard->service->arena, "/%s/%s%s", kind, yard->process, rest);
}

/* A field of the workspace, of the newest program, of the newest mount's lease. */
static inline const char *yard_text(struct yard *yard, const char *path)
{
    return yard_get(yard, "") == 200 ? service_text(yard->service, path) : "";
}

static inline const char *yard_exec_text(struct yard *yard, const char *path)
{
    return yard_get(yard, yard_process(yard, "execs", "")) == 200
               ? service_text(yard->service, path)
               : "";
}

/* Makes a command or a terminal and remembers it. */
static inline int yard_make(struct yard *yard, const char *kind, const char *body)
{
    int status = yard_post(yard, kind, body);
    const char *path = strcmp(kind, "/execs") == 0 ? "exec.id" : "pty.id";

    if (status == 201)
        snprintf(yard->process, ID_TEXT, "%s", service_text(yard->service, path));
    return status;
}

/* The worker takes the mount that was asked for. */
static inline bool yard_take(struct yard *yard)
{
    if (!worker_take(&yard->worker, "mount"))
        return false;
    yard->generation = service_int(yard->service, "grants.0.mount.generation");
    snprintf(yard->mount, ID_TEXT, "%s", yard->worker.subject);
    return true;
}

static inline int yard_ready(struct yard *yard)
{
    return lease_post(&yard->worker, "mount/ready",
                      arena_printf(&yard->service->arena, ",\"generation\":%lld",
                                   (long long)yard->generation));
}

/* All the way to a mounted workspace. */
static inline bool yard_mount(struct yard *yard)
{
    int asked = yard_post(yard, "/materialize", "{}");

    return (asked == 202 || asked == 200) && yard_take(yard) && lease_begin(&yard->worker) == 200 &&
           lease_start(&yard->worker) == 200 && yard_ready(yard) == 200;
}

/* What the worker is told; the answer is in the service. */
static inline size_t yard_hear(struct yard *yard)
{
    struct service *service = yard->service;

    if (worker_poll(&yard->worker, "[]", &large_room, 0, "[]") != 200)
        return 0;
    yard->worker.cursor = service_int(service, "cursor");
    return json_count(buf_str(&service->answer.body), "messages");
}

/* A state of the newest program, as the worker reports it, with further members. */
static inline int yard_report(struct yard *yard, const char *state, const char *more)
{
    return lease_post(&yard->worker, "process",
                      arena_printf(&yard->service->arena,
                                   ",\"processes\":[{\"process_id\":\"%s\",\"state\":\"%s\"%s}]",
                                   yard->process, state, more));
}

/* Output of it, in clear text, from the offset on. */
static inline int yard_say(struct yard *yard, const char *stream, int64_t offset, const char *text)
{
    struct test_worker *worker = &yard->worker;
    struct arena *arena = &yard->service->arena;

    return worker_post(worker, arena_printf(arena, "leases/%s/process", worker->lease),
                       arena_printf(arena,
                                    "{\"fence\":{\"epoch\":%lld,\"lease_id\":\"%s\",\"sequence\":"
                                    "%lld},\"chunks\":[{\"process_id\":\"%s\",\"stream\":\"%s\","
                                    "\"offset\":%lld,\"observed_ms\":1,\"len\":%zu}]}\n%s",
                                    (long long)worker->epoch, worker->lease,
                                    (long long)worker->sequence, yard->process, stream,
                                    (long long)offset, strlen(text), text));
}

/* What changed, as a version of one object, or nothing. */
static inline int yard_version(struct yard *yard, const char *operation, const char *text)
{
    struct arena *arena = &yard->service->arena;
    const char *manifest = text ? worker_put(&yard->worker, text) : "";
    const char *version =
        text
            ? arena_printf(arena,
                           ",\"version\":{\"id\":\"%s\",\"manifest\":\"%s\",\"tree_digest\":\"%s\","
                           "\"objects\":[{\"digest\":\"%s\",\"size\":1}],\"size_bytes\":1,"
                           "\"entries\":1}",
                           operation, manifest, manifest, manifest)
            : "";

    return lease_post(&yard->worker, "mount/version",
                      arena_printf(arena, ",\"operation_id\":\"%s\",\"fingerprint\":\"%s\"%s",
                                   operation, text ? text : "none", version));
}

static inline int yard_close(struct yard *yard)
{
    return lease_post(&yard->worker, "mount/closed", ",\"reason\":\"idle\"");
}

/* The whole stream of a program that is over, as events. */
static inline int yard_events(struct yard *yard, const char *kind, const char *rest)
{
    static const char *const headers[] = {"Accept: text/event-stream", NULL};
    const struct http_request request = {.method = "GET",
                                         .path = yard_path(yard, yard_process(yard, kind, rest)),
                                         .headers = headers};

    return service_send(yard->service, yard->key, &request);
}

#define CHECK_REFUSED(service, got, status, want)       \
    do {                                                \
        CHECK_STATUS(service, got, status);             \
        CHECK_STR(service_text(service, "code"), want); \
    } while (0)
