/* What a finished build brought, into rows: queues, sandboxes with their images, tasks, streams. */
#include <stdio.h>

#include "base/encode.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/json.h"
#include "base/time.h"
#include "model/deployment_state.h"
#include "model/name.h"
#include "server/deployment_store.h"
#include "server/event.h"
#include "server/input.h"
#include "server/schedule_store.h"
#include "server/task_secrets.h"
#include "store/queries.h"

enum {
    TASKS_MAX = 1000,
    LIST_MAX = 256,
    GUEST_ABI = 1,
    LIMIT_MAX = INT32_MAX,
    STREAMS_MAX = 256 * 1024
};

struct manifest_task {
    struct str id, file_path, export_name, sandbox_id, queue, ttl, retry, secrets, schedules,
        payload_schema;
    bool accepts_payload;
    int64_t max_duration_seconds;
};

struct manifest_sandbox {
    struct str id, image_id, mount_path, network;
    int64_t cpu, memory_mib, disk_mib;
};

struct manifest_queue {
    struct str name, concurrency_limit;
};

struct manifest_stream {
    struct str name, direction, schema_fingerprint;
};

struct manifest {
    struct str project;
    struct json_list tasks, sandboxes, queues, streams;
};

#define AT(type, member) offsetof(struct manifest_##type, member)

static const struct json_field task_fields[] = {
    {"id", JSON_TEXT, AT(task, id), REQUIRED, .max = 128},
    {"file_path", JSON_TEXT, AT(task, file_path), REQUIRED, .max = 4096},
    {"export_name", JSON_TEXT, AT(task, export_name), REQUIRED, .max = 256},
    {"sandbox_id", JSON_TEXT, AT(task, sandbox_id), REQUIRED, .max = 128},
    {"accepts_payload", JSON_BOOL, AT(task, accepts_payload), REQUIRED},
    {"max_duration_seconds", JSON_INTEGER, AT(task, max_duration_seconds), REQUIRED, .min = 5,
     .max = 86400},
    {"queue", JSON_TEXT, AT(task, queue), REQUIRED, .max = 256},
    {"ttl", JSON_RAW, AT(task, ttl), OPTIONAL, .max = 256},
    {"retry", JSON_RAW, AT(task, retry), OPTIONAL, .max = 4096},
    {"secrets", JSON_RAW, AT(task, secrets), OPTIONAL, .max = 65536},
    {"schedules", JSON_RAW, AT(task, schedules), OPTIONAL, .max = 65536},
    {"payload_schema", JSON_RAW, AT(task, payload_schema), OPTIONAL, .max = 65536},
    {0},
};

static const struct json_field sandbox_fields[] = {
    {"id", JSON_TEXT, AT(sandbox, id), REQUIRED, .max = 128},
    {"image_id", JSON_TEXT, AT(sandbox, image_id), REQUIRED, .max = 128},
    {"mount_path", JSON_TEXT, AT(sandbox, mount_path), REQUIRED, .max = 4096},
    {"cpu", JSON_INTEGER, AT(sandbox, cpu), REQUIRED, .min = 1, .max = 4096},
    {"memory_mib", JSON_INTEGER, AT(sandbox, memory_mib), REQUIRED, .min = 128,
     .max = (int64_t)MIB(64)},
    {"disk_mib", JSON_INTEGER, AT(sandbox, disk_mib), REQUIRED, .min = 1, .max = (int64_t)MIB(64)},
    {"network", JSON_RAW, AT(sandbox, network), OPTIONAL, .max = 65536},
    {0},
};

static const struct json_field queue_fields[] = {
    {"name", JSON_TEXT, AT(queue, name), REQUIRED, .max = 256},
    {"concurrency_limit", JSON_RAW, AT(queue, concurrency_limit), OPTIONAL, .max = 32},
    {0},
};

static const struct json_field stream_fields[] = {
    {"name", JSON_TEXT, AT(stream, name), REQUIRED, .max = 256},
    {"direction", JSON_TEXT, AT(stream, direction), REQUIRED, .max = 8},
    {"schema_fingerprint", JSON_TEXT, AT(stream, schema_fingerprint), OPTIONAL, .max = 128},
    {0},
};

static const struct json_field manifest_fields[] = {
    {"project", JSON_TEXT, offsetof(struct manifest, project), OPTIONAL, .max = 64},
    {"tasks", JSON_LIST, offsetof(struct manifest, tasks), REQUIRED, .max = TASKS_MAX,
     .fields = task_fields, .size = sizeof(struct manifest_task)},
    {"sandboxes", JSON_LIST, offsetof(struct manifest, sandboxes), REQUIRED, .max = LIST_MAX,
     .fields = sandbox_fields, .size = sizeof(struct manifest_sandbox)},
    {"queues", JSON_LIST, offsetof(struct manifest, queues), OPTIONAL, .max = LIST_MAX,
     .fields = queue_fields, .size = sizeof(struct manifest_queue)},
    {"streams", JSON_LIST, offsetof(struct manifest, streams), OPTIONAL, .max = LIST_MAX,
     .fields = stream_fields, .size = sizeof(struct manifest_stream)},
    {0},
};

struct ingest {
    struct tx *tx;
    const char *deployment_id, *environment_id;
    const struct wire_build_complete *built;
    struct manifest manifest;
    struct arena arena;
    char (*sandbox_rows)[ID_TEXT]; /* beside manifest.sandboxes */
};

static void fingerprint_of(const struct manifest_sandbox *sandbox, struct str digest, char hex[65])
{
    const struct str parts[] = {digest, sandbox->mount_path, sandbox->network, STR("1")};
    uint8_t raw[BLAKE2B_LEN];
    struct blake2b hash;

    blake2b_init(&hash, STR("helmr sandbox"));
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        uint64_t len = parts[i].len;
        blake2b_update(&hash, (struct str){(const char *)&len, sizeof len});
        blake2b_update(&hash, parts[i]);
    }
    blake2b_final(&hash, raw);
    hex_encode((struct str){(const char *)raw, sizeof raw}, hex);
}

static bool is_value(struct str raw)
{
    return raw.ptr && !str_equal(raw, STR("null"));
}

static bool add_queue(struct ingest *in, const struct manifest_queue *queue, struct error *err)
{
    int64_t limit = 0;
    struct str raw = queue->concurrency_limit;
    bool has_limit = is_value(raw);

    if (!name_check(NAME_QUEUE, "queue", queue->name, err))
        return false;
    if (has_limit &&
        (!json_find_int(str_of(arena_printf(&in->arena, "{\"n\":%.*s}", (int)raw.len, raw.ptr)),
                        "n", &limit) ||
         limit < 1 || limit > LIMIT_MAX))
        return error_set(err, ERR_INVALID, "the limit of queue %.*s must be from 1 to %d",
                         (int)queue->name.len, queue->name.ptr, LIMIT_MAX);
    return STORE(in->tx, &deployment_queue_insert, NULL, NULL, err, V_TEXT(in->deployment_id),
                 V_STR(queue->name), has_limit ? V_INT(limit) : V_NULL);
}

static bool add_sandbox(struct ingest *in, size_t index, struct error *err)
{
    const struct manifest_sandbox *sandbox =
        (const struct manifest_sandbox *)in->manifest.sandboxes.items + index;
    const struct wire_build_image *images = in->built->images.items, *image = NULL;
    char fingerprint[65];

    if (!name_check(NAME_ID, "sandbox id", sandbox->id, err))
        return false;
    for (size_t i = 0; i < in->built->images.n; i++)
        if (str_equal(images[i].id, sandbox->image_id))
            image = &images[i];
    if (!image)
        return error_set(err, ERR_INVALID, "the build brought no image %.*s",
                         (int)sandbox->image_id.len, sandbox->image_id.ptr);
    fingerprint_of(sandbox, image->digest, fingerprint);
    id_make(in->sandbox_rows[index]);
    return STORE(in->tx, &deployment_sandbox_insert, NULL, NULL, err,
                 V_TEXT(in->sandbox_rows[index]), V_TEXT(in->environment_id),
                 V_TEXT(in->deployment_id), V_STR(sandbox->id), V_TEXT(fingerprint),
                 V_INT(GUEST_ABI), V_STR(image->digest), V_INT(image->size), V_TEXT("[]"),
                 V_TEXT("{}"), V_STR(sandbox->mount_path), V_INT(sandbox->cpu * 1000),
                 V_INT(sandbox->memory_mib), V_INT(sandbox->disk_mib),
                 V_STR(sandbox->network.ptr ? sandbox->network : STR("{\"internet\":true}")),
                 V_NULL, V_STR(sandbox->image_id));
}

static const char *sandbox_row(const struct ingest *in, struct str id)
{
    const struct manifest_sandbox *list = in->manifest.sandboxes.items;

    for (size_t i = 0; i < in->manifest.sandboxes.n; i++)
        if (str_equal(list[i].id, id))
            return in->sandbox_rows[i];
    return NULL;
}

/* Without a word about it the module is not imported ahead. */
static struct wire_import import_of(const struct ingest *in, struct str task_id)
{
    const struct wire_import *imports = in->built->imports.items;

    for (size_t i = 0; i < in->built->imports.n; i++)
        if (str_equal(imports[i].task_id, task_id))
            return imports[i];
    return (struct wire_import){.task_id = task_id};
}

static bool add_task(struct ingest *in, const struct manifest_task *task, struct error *err)
{
    const char *sandbox = sandbox_row(in, task->sandbox_id);
    const struct wire_import import = import_of(in, task->id);
    struct str retry = {0};
    struct json_list secrets;
    char id[ID_TEXT];
    int64_t ttl_ms = 0;

    if (!name_check(NAME_ID, "task id", task->id, err) ||
        !name_check(NAME_QUEUE, "queue", task->queue, err))
        return false;
    if (!sandbox)
        return error_set(err, ERR_INVALID, "task %.*s names a sandbox that is not there",
                         (int)task->id.len, task->id.ptr);
    if (is_value(task->ttl) && !input_duration(task->ttl, "ttl", 365 * DAY_MS, &ttl_ms, err))
        return false;
    if (is_value(task->retry) && !input_retry(task->retry, &in->arena, &retry, err))
        return false;
    if (is_value(task->secrets) && !task_secrets_read(task->secrets, &in->arena, &secrets, err))
        return false;
    if (is_value(task->schedules) && !schedule_declared_check(task->schedules, &in->arena, err))
        return false;
    id_make(id);
    return STORE(in->tx, &deployment_task_insert, NULL, NULL, err, V_TEXT(id),
                 V_TEXT(in->environment_id), V_TEXT(in->deployment_id), V_TEXT(sandbox),
                 V_STR(task->id), V_STR(task->sandbox_id), V_STR(task->file_path),
                 V_STR(task->export_name), V_INT(task->accepts_payload),
                 V_INT(task->max_duration_seconds), V_STR(task->queue),
                 ttl_ms ? V_INT(ttl_ms) : V_NULL, retry.len ? V_STR(retry) : V_NULL,
                 V_STR(is_value(task->secrets) ? task->secrets : STR("[]")),
                 V_STR(is_value(task->schedules) ? task->schedules : STR("[]")),
                 V_INT(import.preload), V_STR_OR_NULL(import.reason),
                 is_value(task->payload_schema) ? V_STR(task->payload_schema) : V_NULL);
}

static bool add_rows(struct ingest *in, struct error *err)
{
    const struct manifest_queue *queues = in->manifest.queues.items;
    const struct manifest_task *tasks = in->manifest.tasks.items;

    in->sandbox_rows =
        arena_array(&in->arena, in->manifest.sandboxes.n + 1, sizeof *in->sandbox_rows);
    for (size_t i = 0; i < in->manifest.queues.n; i++)
        if (!add_queue(in, &queues[i], err))
            return false;
    for (size_t i = 0; i < in->manifest.sandboxes.n; i++)
        if (!add_sandbox(in, i, err))
            return false;
    for (size_t i = 0; i < in->manifest.tasks.n; i++)
        if (!add_task(in, &tasks[i], err))
            return false;
    return true;
}

static bool check_stream(const struct ingest *in, size_t index, struct error *err)
{
    const struct manifest_stream *streams = in->manifest.streams.items;
    const struct manifest_stream *stream = &streams[index];

    if (!name_check(NAME_STREAM, "stream", stream->name, err))
        return false;
    if (!str_equal(stream->direction, STR("input")) && !str_equal(stream->direction, STR("output")))
        return error_set(err, ERR_INVALID, "stream %.*s must be input or output",
                         (int)stream->name.len, stream->name.ptr);
    for (size_t i = 0; i < index; i++)
        if (str_equal(streams[i].name, stream->name))
            return error_set(err, ERR_INVALID, "stream %.*s is declared twice",
                             (int)stream->name.len, stream->name.ptr);
    return true;
}

/* The list as it is kept and shown with the deployment. */
static bool write_streams(const struct ingest *in, struct buf *out, struct error *err)
{
    const struct manifest_stream *streams = in->manifest.streams.items;
    struct json_writer json = json_begin(out);

    json_open_list(&json, NULL);
    for (size_t i = 0; i < in->manifest.streams.n; i++) {
        if (!check_stream(in, i, err))
            return false;
        json_open(&json, NULL);
        json_text(&json, "name", streams[i].name);
        json_text(&json, "direction", streams[i].direction);
        if (streams[i].schema_fingerprint.ptr)
            json_text(&json, "schema_fingerprint", streams[i].schema_fingerprint);
        json_close(&json);
    }
    json_close_list(&json);
    return json_end(&json, err);
}

static bool write_deployed(struct ingest *in, const char *before, struct error *err)
{
    AUTO(buf_finish) struct buf streams = {.max = STREAMS_MAX};
    struct str bundle = in->built->bundle.digest;
    uint8_t raw[BLAKE2B_LEN];
    char digest[2 * BLAKE2B_LEN + 1];
    struct blake2b hash;
    struct rows rows;

    if (!write_streams(in, &streams, err))
        return false;
    blake2b_init(&hash, (struct str){0});
    blake2b_update(&hash, in->built->manifest);
    blake2b_final(&hash, raw);
    hex_encode((struct str){(const char *)raw, sizeof raw}, digest);
    return STORE(in->tx, &deployment_deploy, &in->arena, &rows, err, V_TEXT(in->deployment_id),
                 V_TEXT(before), V_INT(time_now_ms()), V_STR(in->built->manifest), V_TEXT(digest),
                 V_STR(bundle), V_STR(bundle), V_STR(buf_str(&streams)),
                 V_STR_OR_NULL(in->manifest.project));
}

static bool deployed_event(struct ingest *in, const char *version, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = KIB(1024)};
    struct json_writer json = json_begin(&text);
    const struct manifest_task *tasks = in->manifest.tasks.items;
    const struct wire_build_image *images = in->built->images.items;

    json_open(&json, NULL);
    json_string(&json, "version", version);
    json_open_list(&json, "tasks");
    for (size_t i = 0; i < in->manifest.tasks.n; i++)
        json_text(&json, NULL, tasks[i].id);
    json_close_list(&json);
    json_open_list(&json, "images");
    for (size_t i = 0; i < in->built->images.n; i++) {
        json_open(&json, NULL);
        json_text(&json, "id", images[i].id);
        json_text(&json, "digest", images[i].digest);
        json_int(&json, "size_bytes", images[i].size);
        json_close(&json);
    }
    json_close_list(&json);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    const struct event event = {.kind = "deployment.deployed",
                                .source = "worker",
                                .attributes = buf_str(&text)};
    return deployment_event_append(in->tx, in->deployment_id, &event, err);
}

static bool ingest(struct ingest *in, struct wakes *wakes, struct error *err)
{
    enum deployment_state state;
    struct rows rows;

    if (!STORE(in->tx, &deployment_load, &in->arena, &rows, err, V_TEXT(in->deployment_id)))
        return false;
    if (rows.n_rows == 0 ||
        !deployment_state_parse(row_str(&rows, 0, DEPLOYMENT_LOAD_STATE), &state))
        return error_set(err, ERR_NOT_FOUND, "there is no such deployment");
    const char *before = deployment_state_name(state);
    if (!deployment_state_apply(&state, DEPLOYMENT_BUILT))
        return error_set(err, ERR_LEASE_STALE, "a deployment that is %s cannot be deployed",
                         before);
    in->environment_id = row_text(&rows, 0, DEPLOYMENT_LOAD_ENVIRONMENT_ID);
    wakes_add(wakes, "deployment:", in->deployment_id);
    wakes_add(wakes, "env:", in->environment_id);
    if (!in->built->manifest.ptr)
        return error_set(err, ERR_INVALID, "/manifest is missing");
    return json_read_loose(in->built->manifest, manifest_fields, &in->manifest, sizeof in->manifest,
                           &in->arena, err) &&
           add_rows(in, err) && write_deployed(in, before, err) &&
           deployed_event(in, row_text(&rows, 0, DEPLOYMENT_LOAD_VERSION), err);
}

bool deployment_end_deployed(struct tx *tx, const char *id, const struct wire_build_complete *built,
                             struct wakes *wakes, struct error *err)
{
    struct ingest in = {.tx = tx, .deployment_id = id, .built = built};

    bool fine = ingest(&in, wakes, err);
    arena_finish(&in.arena);
    return fine;
}
