#include "server/worker_testing.h"

#include <archive.h>
#include <archive_entry.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "protocol/worker_api.h"
#include "server/keys.h"

enum {
    TAR_MAX = 64 * 1024,
    BODY_MAX = 256 * 1024,
    TAKE_MS = 10000
}; /* a lost race is tried again */

const struct test_room large_room = {64000, 65536, 65536, 16, 4};

static int post(struct test_worker *worker, const char *token, const char *route, const char *body)
{
    static const char *const headers[] = {WORKER_PROTOCOL_HEADER, NULL};
    const struct http_request request = {
        .method = "POST",
        .path = arena_printf(&worker->service->arena, "/api/worker/%s", route),
        .body = str_of(body),
        .headers = headers,
        .timeout_ms = INT64_C(60) * 1000,
    };

    return service_send(worker->service, token, &request);
}

int worker_post(struct test_worker *worker, const char *route, const char *body)
{
    return post(worker, worker->bearer, route, body);
}

int worker_register(struct test_worker *worker, const char *token)
{
    struct service *service = worker->service;
    int status = post(worker, NULL, "register",
                      arena_printf(&service->arena,
                                   "{\"token\":\"%s\",\"resource_id\":\"%s\",\"machine_id\":\"%s\","
                                   "\"version\":\"1\",\"protocol\":\"" WORKER_PROTOCOL
                                   "\",\"roles\":[\"run\",\"build\"]}",
                                   token, worker->name, worker->machine));

    if (status == 200) {
        snprintf(worker->id, sizeof worker->id, "%s", service_text(service, "worker_id"));
        snprintf(worker->credential, sizeof worker->credential, "%s",
                 service_text(service, "credential"));
    }
    return status;
}

int worker_open(struct test_worker *worker)
{
    struct service *service = worker->service;
    char boot[ID_TEXT];

    id_make(boot);
    int status = post(worker, NULL, "session",
                      arena_printf(&service->arena,
                                   "{\"worker_id\":\"%s\",\"credential\":\"%s\",\"boot_id\":\"%s\","
                                   "\"machine_id\":\"%s\",\"protocol\":\"" WORKER_PROTOCOL "\"}",
                                   worker->id, worker->credential, boot, worker->machine));
    if (status == 200) {
        worker->epoch = service_int(service, "epoch");
        worker->cursor = 0;
        snprintf(worker->bearer, sizeof worker->bearer, "%s", service_text(service, "bearer"));
    }
    return status;
}

static const char *checkpoint_facts(struct test_worker *worker)
{
    return arena_printf(&worker->service->arena,
                        ",\"memory_checkpoint\":true,\"checkpoint_key_id\":\"%s\","
                        "\"compat\":\"%s\",\"compat_facts\":{\"engine_build\":\"%s\"}",
                        worker->key_id, worker->compat, worker->compat);
}

int worker_activate_as(struct test_worker *worker, const char *grade)
{
    return worker_post(
        worker, "activate",
        arena_printf(&worker->service->arena,
                     "{\"epoch\":%lld,\"capabilities\":{\"version\":\"1\",\"protocol\":"
                     "\"" WORKER_PROTOCOL "\",\"arch\":\"x86_64\",\"privilege\":\"%s\","
                     "\"cni_profile\":\"nat\",\"roles\":%s,\"engine\":\"gvisor\","
                     "\"grade\":\"%s\",\"engine_build\":\"b\",\"accelerated\":false,"
                     "\"rootfs_digest\":\"r\",\"guest_abi\":1,\"vcpus\":64,\"memory_mib\":65536,"
                     "\"disk_mib\":65536,\"execution_slots\":16,\"build_slots\":4,"
                     "\"max_vcpus\":64,\"max_memory_mib\":65536%s}}",
                     (long long)worker->epoch, worker->privilege ? worker->privilege : "root",
                     worker->roles ? worker->roles : "[\"run\",\"build\"]", grade,
                     worker->compat ? checkpoint_facts(worker) : ""));
}

int worker_beat_now(struct test_worker *worker, const char *instances)
{
    return worker_post(worker, "heartbeat",
                       arena_printf(&worker->service->arena,
                                    "{\"epoch\":%lld,\"number\":1,\"free\":{\"cpu_millis\":0,"
                                    "\"memory_mib\":0,\"disk_mib\":0,\"slots\":0,"
                                    "\"build_slots\":0},\"instances\":%s}",
                                    (long long)worker->epoch, instances));
}

static bool read_bootstrap(struct service *service, const char **token)
{
    AUTO_FREE char *text = NULL;
    struct error err;
    const char *path = arena_printf(&service->arena, "%s/keys/bootstrap", service->data_dir);

    if (!file_read(path, 256, &text, &err)) {
        printf("# %s\n", err.text);
        return false;
    }
    text[strcspn(text, "\n")] = '\0';
    *token = arena_text(&service->arena, str_of(text));
    return true;
}

bool worker_join(struct test_worker *worker, struct service *service, const char *name)
{
    const char *token;

    *worker = (struct test_worker){.service = service,
                                   .name = name,
                                   .machine = name,
                                   .grade = worker->grade,
                                   .roles = worker->roles,
                                   .privilege = worker->privilege,
                                   .compat = worker->compat,
                                   .key_id = worker->key_id};
    return read_bootstrap(service, &token) && worker_register(worker, token) == 200 &&
           worker_open(worker) == 200 &&
           worker_activate_as(worker, worker->grade ? worker->grade : "user-kernel") == 200;
}

int worker_poll(struct test_worker *worker, const char *accept, const struct test_room *room,
                int64_t wait_ms, const char *known)
{
    return worker_post(
        worker, "poll",
        arena_printf(&worker->service->arena,
                     "{\"epoch\":%lld,\"cursor\":%lld,\"wait_ms\":%lld,\"accept\":%s,\"known\":%s,"
                     "\"free\":{\"cpu_millis\":%lld,\"memory_mib\":%lld,\"disk_mib\":%lld,"
                     "\"slots\":%lld,\"build_slots\":%lld}}",
                     (long long)worker->epoch, (long long)worker->cursor, (long long)wait_ms,
                     accept, known, (long long)room->cpu_millis, (long long)room->memory_mib,
                     (long long)room->disk_mib, (long long)room->slots,
                     (long long)room->build_slots));
}

bool worker_take(struct test_worker *worker, const char *kind)
{
    struct service *service = worker->service;
    struct test_room room = large_room;
    const char *accept = arena_printf(&service->arena, "[\"%s\"]", kind);
    const char *subject = strcmp(kind, "build") == 0   ? "grants.0.build.deployment_id"
                          : strcmp(kind, "mount") == 0 ? "grants.0.mount.mount_id"
                                                       : "grants.0.run.run_id";

    room.slots = room.build_slots = 1;
    if (worker_poll(worker, accept, &room, TAKE_MS, "[]") != 200 ||
        json_count(buf_str(&service->answer.body), "grants") != 1 ||
        strcmp(service_text(service, "grants.0.kind"), kind) != 0) {
        printf("# no %s was granted: %.*s\n", kind, (int)service->answer.body.len,
               service->answer.body.bytes);
        return false;
    }
    snprintf(worker->lease, ID_TEXT, "%s", service_text(service, "grants.0.lease_id"));
    snprintf(worker->subject, ID_TEXT, "%s", service_text(service, subject));
    worker->sequence = service_int(service, "grants.0.sequence");
    worker->attempt = service_int(service, "grants.0.run.attempt");
    worker->expires_ms = service_int(service, "grants.0.expires_ms");
    if (strcmp(kind, "resume") == 0) {
        snprintf(worker->wait, ID_TEXT, "%s", service_text(service, "grants.0.resume.wait_id"));
        worker->resume_version = service_int(service, "grants.0.resume.resume_version");
    }
    return true;
}

int lease_post(struct test_worker *worker, const char *verb, const char *more)
{
    struct arena *arena = &worker->service->arena;

    return worker_post(worker, arena_printf(arena, "leases/%s/%s", worker->lease, verb),
                       arena_printf(arena,
                                    "{\"fence\":{\"epoch\":%lld,\"lease_id\":\"%s\","
                                    "\"sequence\":%lld}%s}",
                                    (long long)worker->epoch, worker->lease,
                                    (long long)worker->sequence, more));
}

int lease_begin(struct test_worker *worker)
{
    return lease_post(worker, "begin", "");
}

int lease_start(struct test_worker *worker)
{
    int status =
        lease_post(worker, "start",
                   ",\"engine\":\"gvisor\",\"grade\":\"user-kernel\",\"accelerated\":false,"
                   "\"start\":\"standby\",\"level\":\"b\",\"start_ms\":7,"
                   "\"phases\":[{\"step\":\"network\",\"ms\":3}]");

    if (status == 200)
        worker->expires_ms = service_int(worker->service, "expires_ms");
    return status;
}

int checkpoint_begin(struct test_worker *worker, const char *wait)
{
    struct arena *arena = &worker->service->arena;

    snprintf(worker->wait, ID_TEXT, "%s", wait);
    id_make(worker->checkpoint);
    return lease_post(worker, "checkpoint/begin",
                      arena_printf(arena, ",\"wait_id\":\"%s\",\"checkpoint_id\":\"%s\"", wait,
                                   worker->checkpoint));
}

int checkpoint_stage(struct test_worker *worker)
{
    struct arena *arena = &worker->service->arena;
    const char *manifest = worker_put(worker, arena_printf(arena, "list %s", worker->checkpoint));
    const char *pack = worker_put(worker, arena_printf(arena, "pack %s", worker->checkpoint));

    return lease_post(worker, "checkpoint/stage",
                      arena_printf(arena,
                                   ",\"checkpoint_id\":\"%s\",\"manifest\":\"%s\","
                                   "\"key_id\":\"%s\",\"compat\":\"%s\",\"objects\":["
                                   "{\"digest\":\"%s\",\"size\":1},{\"digest\":\"%s\","
                                   "\"size\":1}],\"logical_bytes\":20,\"stored_bytes\":10,"
                                   "\"op\":1,\"ms\":5,\"can_fork\":true",
                                   worker->checkpoint, manifest, worker->key_id, worker->compat,
                                   manifest, pack));
}

static int post_checkpoint(struct test_worker *worker, const char *verb, const char *more)
{
    return lease_post(worker, verb,
                      arena_printf(&worker->service->arena, ",\"checkpoint_id\":\"%s\"%s",
                                   worker->checkpoint, more));
}

int checkpoint_ready(struct test_worker *worker)
{
    return post_checkpoint(worker, "checkpoint/ready", "");
}

int checkpoint_abort(struct test_worker *worker)
{
    return post_checkpoint(worker, "checkpoint/abort", ",\"code\":\"adapter_busy\"");
}

int lease_resumed(struct test_worker *worker, const char *mode)
{
    return lease_post(worker, "resumed",
                      arena_printf(&worker->service->arena,
                                   ",\"wait_id\":\"%s\",\"mode\":\"%s\","
                                   "\"resume_version\":%lld,\"resume_ms\":7",
                                   worker->wait, mode, (long long)worker->resume_version));
}

int lease_report(struct test_worker *worker, const char *outcome, const char *more)
{
    struct arena *arena = &worker->service->arena;
    const char *head = arena_printf(arena,
                                    ",\"operation_id\":\"0190a000-0000-7000-8000-000000000001\","
                                    "\"outcome\":\"%s\",\"fingerprint\":\"f-%s\"",
                                    outcome, outcome);
    int status = lease_post(worker, "finalize", head);

    if (status != 200)
        return status;
    return lease_post(worker, "complete",
                      arena_printf(arena, "%s,\"exit_code\":%d,\"active_ms\":5%s", head,
                                   strcmp(outcome, "succeeded") == 0 ? 0 : 1,
                                   strstr(more, "\"stdout\":")
                                       ? more
                                       : arena_printf(arena, ",\"stdout\":0,\"stderr\":0%s",
                                                      more)));
}

bool lease_op(struct test_worker *worker, int64_t op, const char *kind, const char *body)
{
    struct service *service = worker->service;
    const char *more =
        arena_printf(&service->arena, ",\"operations\":[{\"op\":%lld,\"kind\":\"%s\",\"body\":%s}]",
                     (long long)op, kind, body);

    if (lease_post(worker, "ops", more) != 200) {
        printf("# %.*s\n", (int)service->answer.body.len, service->answer.body.bytes);
        return false;
    }
    return service_says(service, "\"ok\":true");
}

bool worker_carry(struct test_worker *worker, const char *key)
{
    return *service_start_run(worker->service, key, "hello", NULL) && worker_take(worker, "run") &&
           lease_begin(worker) == 200 && lease_start(worker) == 200;
}

static struct str make_tar(struct service *service)
{
    char *bytes = arena_alloc(&service->arena, TAR_MAX), name[ID_TEXT];
    struct archive *archive = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    size_t used = 0;

    id_make(name);
    archive_write_set_format_pax_restricted(archive);
    archive_write_open_memory(archive, bytes, TAR_MAX, &used);
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, 0);
    archive_write_header(archive, entry);
    archive_entry_free(entry);
    archive_write_close(archive);
    archive_write_free(archive);
    return (struct str){bytes, used};
}

static const char *hash_of(struct service *service, struct str bytes)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    char hex[2 * EVP_MAX_MD_SIZE + 1];

    if (EVP_Digest(bytes.ptr, bytes.len, sum, &len, EVP_sha256(), NULL) != 1)
        abort();
    hex_encode((struct str){(const char *)sum, len}, hex);
    return arena_text(&service->arena, str_of(hex));
}

const char *service_upload(struct service *service, const char *key)
{
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    struct str source = make_tar(service);
    const char *head =
        arena_printf(&service->arena,
                     "--edge\r\nContent-Disposition: form-data; name=\"metadata\"\r\n"
                     "Content-Type: application/json\r\n\r\n{\"content_hash\":\"sha256:%s\"}\r\n"
                     "--edge\r\nContent-Disposition: form-data; name=\"deployment_source\"; "
                     "filename=\"source.tar\"\r\n\r\n",
                     hash_of(service, source));
    struct error err;

    if (!buf_append(&body, str_of(head), &err) || !buf_append(&body, source, &err) ||
        !buf_append(&body, STR("\r\n--edge--\r\n"), &err))
        abort();
    const struct http_request request = {.method = "POST",
                                         .path = "/api/deployments",
                                         .content_type = "multipart/form-data; boundary=edge",
                                         .body = buf_str(&body)};
    return service_send(service, key, &request) == 201 ? service_text(service, "id") : "";
}

#define TASK(name, sandbox)                                                                    \
    "{\"id\":\"" name "\",\"file_path\":\"tasks/a.ts\",\"export_name\":\"" name                \
    "\",\"sandbox_id\":\"" sandbox "\",\"accepts_payload\":true,\"max_duration_seconds\":900," \
    "\"queue\":\"task/" name "\"}"
#define SANDBOX(name, cpu, memory)                                                           \
    "{\"id\":\"" name "\",\"image_id\":\"image\",\"mount_path\":\"/workspace\",\"cpu\":" cpu \
    ",\"memory_mib\":" memory ",\"disk_mib\":1024}"

#define STREAMS                                                 \
    "\"streams\":[{\"name\":\"log\",\"direction\":\"output\"}," \
    "{\"name\":\"chat\",\"direction\":\"input\",\"schema_fingerprint\":\"sha256:c\"}]"

const char test_manifest[] = "{\"tasks\":[" TASK("hello", "box") "," TASK(
    "large", "hall") "],"
                     "\"sandboxes\":[" SANDBOX("box", "1", "512") "," SANDBOX(
                         "hall", "4", "4096") "],"
                                              "\"queues\":[{\"name\":\"narrow\",\"concurrency_"
                                              "limit\":2},{\"name\":\"wide\","
                                              "\"concurrency_limit\":null}]," STREAMS "}";

static struct http_request object_request(struct test_worker *worker, const char *method,
                                          const char *id)
{
    return (struct http_request){
        .method = method,
        .path = arena_printf(&worker->service->arena, "/api/worker/objects/%s", id),
        .content_type = "application/octet-stream",
    };
}

const char *object_id(struct service *service, const char *text)
{
    return hash_of(service, str_of(text));
}

const char *worker_put(struct test_worker *worker, const char *text)
{
    const char *id = object_id(worker->service, text);
    struct http_request request = object_request(worker, "PUT", id);

    request.body = str_of(text);
    return service_send(worker->service, worker->bearer, &request) == 200 ? id : "";
}

bool worker_put_sealed(void *worker, const struct seal_facts *facts, int fd, struct error *err)
{
    struct test_worker *putter = worker;
    struct service *service = putter->service;
    const char *const headers[] = {facts->class == SEAL_MANIFEST ? WORKER_OBJECT_CLASS ": manifest"
                                                                 : WORKER_OBJECT_CLASS ": pack",
                                   NULL};
    struct http_request request = object_request(putter, "PUT", facts->digest);
    char *bytes = arena_alloc(&service->arena, facts->size);

    if (pread(fd, bytes, facts->size, 0) != (ssize_t)facts->size)
        return error_errno(err, "read an object");
    request.headers = headers;
    request.body = (struct str){bytes, facts->size};
    return service_send(service, putter->bearer, &request) == 200 ||
           error_set(err, ERR_UNAVAILABLE, "the object was not taken");
}

int worker_ask_object(struct test_worker *worker, const char *method, const char *id)
{
    const struct http_request request = object_request(worker, method, id);

    return service_send(worker->service, worker->bearer, &request);
}

int build_end_with(struct test_worker *worker, const char *manifest, const char *images)
{
    const char *bundle = worker_put(worker, "the bundle");

    if (!*bundle)
        return -1;
    return lease_post(worker, "build/complete",
                      arena_printf(&worker->service->arena,
                                   ",\"outcome\":\"succeeded\",\"fingerprint\":\"f\","
                                   "\"manifest\":%s,\"images\":[%s],\"imports\":["
                                   "{\"task_id\":\"hello\",\"preload\":true},"
                                   "{\"task_id\":\"gone\",\"preload\":true}],"
                                   "\"bundle\":{\"digest\":\"%s\",\"size\":10}",
                                   manifest, images, bundle));
}

int build_end(struct test_worker *worker, const char *manifest)
{
    const char *id = worker_put(worker, "the manifest of an image");

    if (!*id)
        return -1;
    return build_end_with(worker, manifest,
                          arena_printf(&worker->service->arena,
                                       "{\"id\":\"image\",\"digest\":\"sha256:%s\",\"size\":1,"
                                       "\"objects\":[{\"digest\":\"%s\",\"size\":24}]}",
                                       id, id));
}

bool service_build(struct service *service, struct test_worker *worker, const char *key)
{
    const char *id = service_upload(service, key);

    if (!*id || !worker_take(worker, "build") || lease_begin(worker) != 200 ||
        lease_start(worker) != 200 || build_end(worker, test_manifest) != 200) {
        printf("# %.*s\n", (int)service->answer.body.len, service->answer.body.bytes);
        return false;
    }
    snprintf(service->deployment_id, ID_TEXT, "%s", id);
    return service_ask(service, key, "POST",
                       arena_printf(&service->arena, "/api/deployments/%s/promote", id), "") == 200;
}

const char *service_start_run(struct service *service, const char *key, const char *task,
                              const char *options)
{
    const char *body =
        arena_printf(&service->arena, "{\"task_id\":\"%s\",\"payload\":{},\"options\":%s}", task,
                     options ? options : "{}");

    if (service_ask(service, key, "POST", "/api/runs", body) == 201)
        return service_text(service, "id");
    printf("# %.*s\n", (int)service->answer.body.len, service->answer.body.bytes);
    return "";
}

const char *run_text(struct service *service, const char *key, const char *run, const char *path)
{
    const char *address = arena_printf(&service->arena, "/api/runs/%s", run);

    return service_ask(service, key, "GET", address, NULL) == 200 ? service_text(service, path)
                                                                  : "";
}

size_t run_events_of(struct service *service, const char *key, const char *run, const char *kind)
{
    const char *address = arena_printf(&service->arena, "/api/runs/%s/events?limit=200", run);
    size_t found = 0;

    if (service_ask(service, key, "GET", address, NULL) != 200)
        return SIZE_MAX;
    size_t n = json_count(buf_str(&service->answer.body), "events");
    for (size_t i = 0; i < n; i++)
        found += strcmp(service_text(service, arena_printf(&service->arena, "events.%zu.kind", i)),
                        kind) == 0;
    return found;
}

bool service_says(struct service *service, const char *text)
{
    return strstr(arena_text(&service->arena, buf_str(&service->answer.body)), text);
}

bool service_change(struct service *service, const struct query *query, const struct value *params,
                    size_t n_params, int64_t n)
{
    struct error err;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (store_begin(service->server->store, &tx, &err) &&
        store_run(tx, query, params, n_params, &service->arena, &rows, &err) &&
        store_commit(&tx, &err) && rows.n_changed == n)
        return true;
    printf("# %s changed other rows than it should\n", query->name);
    return false;
}

struct service *service_view(const struct service *service)
{
    struct service *view = alloc(sizeof *view);
    struct error err;

    *view = *service;
    view->arena = (struct arena){0};
    view->answer = (struct http_answer){0};
    if (!http_client_create(service->url, &view->client, &err))
        abort();
    return view;
}

void service_view_end(struct service *view)
{
    http_client_destroy(view->client);
    buf_finish(&view->answer.body);
    arena_finish(&view->arena);
    free(view);
}
