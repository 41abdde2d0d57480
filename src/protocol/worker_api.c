#include "protocol/worker_api.h"

#include <limits.h>

/* The kinds of member, so that a table row is a line. AT names the struct under way. */
#define TEXT(name, member, need_, max_) \
    {name, JSON_TEXT, offsetof(struct AT, member), need_, .max = (max_)}
#define NUMBER(name, member, need_) \
    {name, JSON_INTEGER, offsetof(struct AT, member), need_, .max = INT64_MAX}
#define FLAG(name, member, need_) {name, JSON_BOOL, offsetof(struct AT, member), need_}
#define RAW(name, member, need_) \
    {name, JSON_RAW, offsetof(struct AT, member), need_, .max = WIRE_JSON_MAX}
#define PART(name, member, need_, fields_) \
    {name, JSON_OBJ, offsetof(struct AT, member), need_, .fields = (fields_)}
#define TEXTS(name, member, need_, n) \
    {name, JSON_LIST, offsetof(struct AT, member), need_, .max = (n)}
#define LIST(name, member, need_, n, fields_, item)                       \
    {name,       JSON_LIST,           offsetof(struct AT, member), need_, \
     .max = (n), .fields = (fields_), .size = sizeof(struct item)}
#define PAIRS(name, member, need_, n) \
    {name, JSON_MAP, offsetof(struct AT, member), need_, .max = (n)}
#define ID(name, member, need_) TEXT(name, member, need_, WIRE_ID_MAX)

enum { LEASES_MAX = 1024, SECRET_MAX = 128, DIGEST_MAX = 80, NAME_MAX_LEN = 512 };

const struct json_field wire_empty_fields[] = {{0}};

#define AT wire_register
const struct json_field wire_register_fields[] = {
    TEXT("token", token, REQUIRED, SECRET_MAX),
    TEXT("resource_id", resource_id, REQUIRED, 255),
    TEXT("machine_id", machine_id, REQUIRED, 64),
    TEXT("group", group, OPTIONAL, 128),
    TEXT("version", version, REQUIRED, 64),
    TEXT("protocol", protocol, REQUIRED, 64),
    TEXTS("roles", roles, REQUIRED, 8),
    PAIRS("labels", labels, OPTIONAL, 32),
    {0},
};
#undef AT

#define AT wire_registered
const struct json_field wire_registered_fields[] = {
    ID("worker_id", worker_id, REQUIRED),
    ID("group_id", group_id, REQUIRED),
    TEXT("credential", credential, REQUIRED, SECRET_MAX),
    {0},
};
#undef AT

#define AT wire_reclaimed
static const struct json_field reclaimed_fields[] = {
    ID("instance_id", instance_id, REQUIRED),
    ID("lease_id", lease_id, OPTIONAL),
    TEXT("result", result, REQUIRED, 16),
    TEXT("detail", detail, OPTIONAL, WIRE_TEXT_MAX),
    {0},
};
#undef AT

#define AT wire_session
const struct json_field wire_session_fields[] = {
    ID("worker_id", worker_id, REQUIRED),
    TEXT("credential", credential, REQUIRED, SECRET_MAX),
    ID("boot_id", boot_id, REQUIRED),
    TEXT("machine_id", machine_id, REQUIRED, 64),
    TEXT("protocol", protocol, REQUIRED, 64),
    LIST("reclaimed", reclaimed, OPTIONAL, LEASES_MAX, reclaimed_fields, wire_reclaimed),
    {0},
};
#undef AT

#define AT wire_settings
static const struct json_field settings_fields[] = {
    NUMBER("lease_ttl_ms", lease_ttl_ms, REQUIRED),
    NUMBER("cancel_grace_ms", cancel_grace_ms, REQUIRED),
    {0},
};
#undef AT

#define AT wire_session_open
const struct json_field wire_session_open_fields[] = {
    NUMBER("epoch", epoch, REQUIRED),
    TEXT("bearer", bearer, REQUIRED, NAME_MAX_LEN),
    NUMBER("bearer_expires_ms", bearer_expires_ms, REQUIRED),
    NUMBER("server_time_ms", server_time_ms, REQUIRED),
    PART("settings", settings, REQUIRED, settings_fields),
    {0},
};
#undef AT

#define AT wire_bearer
const struct json_field wire_bearer_fields[] = {
    ID("worker_id", worker_id, REQUIRED),
    TEXT("credential", credential, REQUIRED, SECRET_MAX),
    NUMBER("epoch", epoch, REQUIRED),
    {0},
};
#undef AT

#define AT wire_bearer_given
const struct json_field wire_bearer_given_fields[] = {
    TEXT("bearer", bearer, REQUIRED, NAME_MAX_LEN),
    NUMBER("bearer_expires_ms", bearer_expires_ms, REQUIRED),
    {0},
};
#undef AT

#define AT wire_room
static const struct json_field room_fields[] = {
    NUMBER("cpu_millis", cpu_millis, REQUIRED),   NUMBER("memory_mib", memory_mib, REQUIRED),
    NUMBER("disk_mib", disk_mib, REQUIRED),       NUMBER("slots", slots, REQUIRED),
    NUMBER("build_slots", build_slots, REQUIRED), {0},
};
#undef AT

#define AT wire_probe
static const struct json_field probe_fields[] = {
    TEXT("engine", engine, REQUIRED, 32),
    TEXT("grade", grade, REQUIRED, 32),
    FLAG("usable", usable, REQUIRED),
    TEXT("reason", reason, OPTIONAL, WIRE_TEXT_MAX),
    {0},
};
#undef AT

#define AT wire_capabilities
const struct json_field wire_capabilities_fields[] = {
    TEXT("version", version, REQUIRED, 64),
    TEXT("protocol", protocol, REQUIRED, 64),
    TEXT("arch", arch, REQUIRED, 32),
    TEXT("privilege", privilege, REQUIRED, 16),
    TEXT("cni_profile", cni_profile, REQUIRED, 64),
    TEXTS("roles", roles, REQUIRED, 8),
    PAIRS("labels", labels, OPTIONAL, 32),
    TEXT("engine", engine, REQUIRED, 32),
    TEXT("grade", grade, REQUIRED, 32),
    TEXT("engine_build", engine_build, REQUIRED, DIGEST_MAX),
    FLAG("accelerated", accelerated, REQUIRED),
    LIST("probes", probes, OPTIONAL, 8, probe_fields, wire_probe),
    TEXT("rootfs_digest", rootfs_digest, REQUIRED, DIGEST_MAX),
    TEXT("kernel_digest", kernel_digest, OPTIONAL, DIGEST_MAX),
    NUMBER("guest_abi", guest_abi, REQUIRED),
    NUMBER("vcpus", vcpus, REQUIRED),
    NUMBER("memory_mib", memory_mib, REQUIRED),
    NUMBER("disk_mib", disk_mib, REQUIRED),
    NUMBER("execution_slots", execution_slots, REQUIRED),
    NUMBER("build_slots", build_slots, REQUIRED),
    NUMBER("max_vcpus", max_vcpus, REQUIRED),
    NUMBER("max_memory_mib", max_memory_mib, REQUIRED),
    {0},
};
#undef AT

#define AT wire_activate
const struct json_field wire_activate_fields[] = {
    NUMBER("epoch", epoch, REQUIRED),
    PART("capabilities", capabilities, REQUIRED, wire_capabilities_fields),
    {0},
};
#undef AT

#define AT wire_state
const struct json_field wire_state_fields[] = {
    TEXT("state", state, REQUIRED, 32),
    {0},
};
#undef AT

#define AT wire_instance
static const struct json_field instance_fields[] = {
    ID("instance_id", instance_id, REQUIRED),
    ID("lease_id", lease_id, REQUIRED),
    NUMBER("sequence", sequence, REQUIRED),
    TEXT("state", state, REQUIRED, 32),
    {0},
};
#undef AT

#define AT wire_heartbeat
const struct json_field wire_heartbeat_fields[] = {
    NUMBER("epoch", epoch, REQUIRED),
    NUMBER("number", number, REQUIRED),
    PART("free", room, REQUIRED, room_fields),
    TEXTS("paused", paused, OPTIONAL, 16),
    TEXTS("quarantined", quarantined, OPTIONAL, LEASES_MAX),
    LIST("instances", instances, OPTIONAL, LEASES_MAX, instance_fields, wire_instance),
    {0},
};
#undef AT

#define AT wire_heartbeat_answer
const struct json_field wire_heartbeat_answer_fields[] = {
    NUMBER("server_time_ms", server_time_ms, REQUIRED),
    TEXT("desired_state", desired_state, REQUIRED, 32),
    TEXTS("unknown_leases", unknown_leases, OPTIONAL, LEASES_MAX),
    {0},
};
#undef AT

#define AT wire_poll
const struct json_field wire_poll_fields[] = {
    NUMBER("epoch", epoch, REQUIRED),
    NUMBER("cursor", cursor, REQUIRED),
    NUMBER("wait_ms", wait_ms, REQUIRED),
    TEXTS("accept", accept, REQUIRED, 8),
    PART("free", room, REQUIRED, room_fields),
    TEXTS("known", known, OPTIONAL, LEASES_MAX),
    {0},
};
#undef AT

#define AT wire_object
static const struct json_field object_fields[] = {
    TEXT("digest", digest, REQUIRED, DIGEST_MAX),
    NUMBER("size", size, REQUIRED),
    {0},
};
#undef AT

#define AT wire_task
static const struct json_field task_fields[] = {
    TEXT("id", id, REQUIRED, 128),
    TEXT("module", module, REQUIRED, 4096),
    TEXT("export", export_name, REQUIRED, NAME_MAX_LEN),
    {0},
};
#undef AT

#define AT wire_deployment
static const struct json_field deployment_fields[] = {
    ID("id", id, REQUIRED),
    TEXT("version", version, REQUIRED, 32),
    PART("bundle", bundle, REQUIRED, object_fields),
    {0},
};
#undef AT

#define AT wire_sandbox
static const struct json_field sandbox_fields[] = {
    TEXT("id", id, REQUIRED, 128),
    TEXT("image", image, REQUIRED, DIGEST_MAX),
    TEXT("image_id", image_id, OPTIONAL, 128),
    TEXT("mount_path", mount_path, REQUIRED, 4096),
    NUMBER("vcpus", vcpus, REQUIRED),
    NUMBER("memory_mib", memory_mib, REQUIRED),
    NUMBER("disk_mib", disk_mib, REQUIRED),
    FLAG("internet", internet, REQUIRED),
    TEXTS("deny", deny, OPTIONAL, 256),
    {0},
};
#undef AT

#define AT wire_run_grant
static const struct json_field run_grant_fields[] = {
    ID("run_id", run_id, REQUIRED),
    ID("attempt_id", attempt_id, REQUIRED),
    ID("session_id", session_id, REQUIRED),
    ID("workspace_id", workspace_id, REQUIRED),
    TEXT("project", project, OPTIONAL, 64),
    NUMBER("attempt", attempt, REQUIRED),
    NUMBER("max_duration_ms", max_duration_ms, REQUIRED),
    PART("task", task, REQUIRED, task_fields),
    PART("deployment", deployment, REQUIRED, deployment_fields),
    PART("sandbox", sandbox, REQUIRED, sandbox_fields),
    RAW("payload", payload, OPTIONAL),
    RAW("secret_names", secret_names, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_build_grant
static const struct json_field build_grant_fields[] = {
    ID("deployment_id", deployment_id, REQUIRED),
    TEXT("version", version, OPTIONAL, 32),
    TEXT("project", project, REQUIRED, 64),
    PART("source", source, REQUIRED, object_fields),
    PAIRS("env", env, OPTIONAL, 256),
    FLAG("no_cache", no_cache, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_grant
const struct json_field wire_grant_fields[] = {
    TEXT("kind", kind, REQUIRED, 16),
    ID("lease_id", lease_id, REQUIRED),
    NUMBER("sequence", sequence, REQUIRED),
    NUMBER("expires_ms", expires_ms, REQUIRED),
    ID("environment_id", environment_id, REQUIRED),
    ID("project_id", project_id, REQUIRED),
    {"run", JSON_OBJ, offsetof(struct wire_grant, run), OPTIONAL, .fields = run_grant_fields,
                                          .present = offsetof(struct wire_grant, has_run)},
    {"build", JSON_OBJ, offsetof(struct wire_grant, build), OPTIONAL, .fields = build_grant_fields,
                                          .present = offsetof(struct wire_grant, has_build)},
    {0},
};
#undef AT

#define AT wire_message
static const struct json_field message_fields[] = {
    NUMBER("cursor", cursor, REQUIRED), ID("lease_id", lease_id, OPTIONAL),
    TEXT("type", type, REQUIRED, 32),   TEXT("reason", reason, OPTIONAL, WIRE_TEXT_MAX),
    FLAG("force", force, OPTIONAL),     {0},
};
#undef AT

#define AT wire_poll_answer
const struct json_field wire_poll_answer_fields[] = {
    LIST("grants", grants, REQUIRED, 64, wire_grant_fields, wire_grant),
    LIST("messages", messages, REQUIRED, 256, message_fields, wire_message),
    NUMBER("cursor", cursor, REQUIRED),
    {0},
};
#undef AT

#define AT wire_fence
static const struct json_field fence_fields[] = {
    NUMBER("epoch", epoch, REQUIRED),
    ID("lease_id", lease_id, REQUIRED),
    NUMBER("sequence", sequence, REQUIRED),
    {0},
};
#undef AT

#define FENCE PART("fence", fence, REQUIRED, fence_fields)

#define AT wire_begin
const struct json_field wire_begin_fields[] = {FENCE, {0}};
#undef AT

#define AT wire_phase
static const struct json_field phase_fields[] = {
    TEXT("step", step, REQUIRED, 32),
    NUMBER("ms", ms, REQUIRED),
    {0},
};
#undef AT

#define AT wire_start
const struct json_field wire_start_fields[] = {
    FENCE,
    TEXT("engine", engine, REQUIRED, 32),
    TEXT("grade", grade, REQUIRED, 32),
    FLAG("accelerated", accelerated, REQUIRED),
    TEXT("start", start, REQUIRED, 32),
    NUMBER("start_ms", start_ms, REQUIRED),
    LIST("phases", phases, OPTIONAL, 16, phase_fields, wire_phase),
    {0},
};
#undef AT

#define AT wire_renew
const struct json_field wire_renew_fields[] = {
    FENCE,
    NUMBER("expires_ms", expires_ms, REQUIRED),
    NUMBER("active_ms", active_ms, REQUIRED),
    NUMBER("cpu_ms", cpu_ms, OPTIONAL),
    NUMBER("memory_peak", memory_peak, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_lease_times
const struct json_field wire_lease_times_fields[] = {
    NUMBER("expires_ms", expires_ms, REQUIRED),
    NUMBER("hard_deadline_ms", hard_deadline_ms, REQUIRED),
    {0},
};
#undef AT

#define AT wire_reject
const struct json_field wire_reject_fields[] = {
    FENCE,
    TEXT("layer", layer, REQUIRED, 32),
    TEXT("failure_kind", failure_kind, REQUIRED, 64),
    TEXT("code", code, OPTIONAL, 64),
    TEXT("stage", stage, OPTIONAL, 64),
    TEXT("text", text, REQUIRED, WIRE_TEXT_MAX),
    FLAG("retryable", retryable, REQUIRED),
    {0},
};
#undef AT

#define AT wire_release
const struct json_field wire_release_fields[] = {
    FENCE,
    TEXT("reason", reason, REQUIRED, WIRE_TEXT_MAX),
    {0},
};
#undef AT

#define AT wire_log_chunk
static const struct json_field log_chunk_fields[] = {
    TEXT("stream", stream, REQUIRED, 8),          NUMBER("offset", offset, REQUIRED),
    TEXT("data", data, OPTIONAL, WIRE_LOG_MAX),   NUMBER("len", len, OPTIONAL),
    NUMBER("observed_ms", observed_ms, REQUIRED), {0},
};
#undef AT

#define AT wire_logs
const struct json_field wire_logs_fields[] = {
    FENCE,
    LIST("chunks", chunks, REQUIRED, WIRE_CHUNKS_MAX, log_chunk_fields, wire_log_chunk),
    {0},
};
#undef AT

#define AT wire_logs_answer
const struct json_field wire_logs_answer_fields[] = {
    NUMBER("stdout", stdout_end, REQUIRED),
    NUMBER("stderr", stderr_end, REQUIRED),
    {0},
};
#undef AT

#define AT wire_event
static const struct json_field event_fields[] = {
    TEXT("op", op, REQUIRED, 64),
    TEXT("kind", kind, REQUIRED, 300),
    RAW("attributes", attributes, REQUIRED),
    NUMBER("at_ms", at_ms, REQUIRED),
    {0},
};
#undef AT

#define AT wire_events
const struct json_field wire_events_fields[] = {
    FENCE,
    LIST("events", events, REQUIRED, WIRE_CHUNKS_MAX, event_fields, wire_event),
    {0},
};
#undef AT

#define AT wire_finalize
const struct json_field wire_finalize_fields[] = {
    FENCE,
    ID("operation_id", operation_id, REQUIRED),
    TEXT("outcome", outcome, REQUIRED, 16),
    TEXT("fingerprint", fingerprint, REQUIRED, DIGEST_MAX),
    {0},
};
#undef AT

#define AT wire_finalize_answer
const struct json_field wire_finalize_answer_fields[] = {
    FLAG("proceed", proceed, REQUIRED),
    FLAG("cancelled", cancelled, REQUIRED),
    {0},
};
#undef AT

#define AT wire_failure
const struct json_field wire_failure_fields[] = {
    TEXT("layer", layer, REQUIRED, 32),
    TEXT("failure_kind", failure_kind, REQUIRED, 64),
    TEXT("message", message, REQUIRED, 65536),
    RAW("details", details, OPTIONAL),
    {0},
};
#undef AT

#define FAILURE(parent)                \
    {"failure",                        \
     JSON_OBJ,                         \
     offsetof(struct parent, failure), \
     OPTIONAL,                         \
     .fields = wire_failure_fields,    \
     .present = offsetof(struct parent, has_failure)}

#define AT wire_complete
const struct json_field wire_complete_fields[] = {
    FENCE,
    ID("operation_id", operation_id, REQUIRED),
    TEXT("outcome", outcome, REQUIRED, 16),
    TEXT("fingerprint", fingerprint, REQUIRED, DIGEST_MAX),
    NUMBER("exit_code", exit_code, REQUIRED),
    NUMBER("active_ms", active_ms, REQUIRED),
    RAW("output", output, OPTIONAL),
    FAILURE(wire_complete),
    NUMBER("stdout", stdout_end, REQUIRED),
    NUMBER("stderr", stderr_end, REQUIRED),
    {0},
};
#undef AT

#define AT wire_completed
const struct json_field wire_completed_fields[] = {
    TEXT("run_status", run_status, REQUIRED, 32),
    {0},
};
#undef AT

#define AT wire_secrets_wanted
const struct json_field wire_secrets_wanted_fields[] = {
    FENCE,
    TEXTS("names", names, OPTIONAL, WIRE_SECRETS_MAX),
    {0},
};
#undef AT

#define AT wire_secret
static const struct json_field secret_fields[] = {
    TEXT("name", name, REQUIRED, 128),      TEXT("value", value, REQUIRED, WIRE_SECRET_VALUE_MAX),
    NUMBER("version", version, OPTIONAL),   TEXT("placement", placement, OPTIONAL, 8),
    TEXT("target", target, OPTIONAL, 4096), TEXT("mode", mode, OPTIONAL, 8),
    TEXT("owner", owner, OPTIONAL, 128),    {0},
};
#undef AT

#define AT wire_secrets
const struct json_field wire_secrets_fields[] = {
    LIST("secrets", secrets, REQUIRED, WIRE_SECRETS_MAX, secret_fields, wire_secret),
    {0},
};
#undef AT

#define AT wire_layer
static const struct json_field layer_fields[] = {
    TEXT("digest", digest, REQUIRED, DIGEST_MAX),
    TEXT("diff_id", diff_id, REQUIRED, DIGEST_MAX),
    NUMBER("size", size, REQUIRED),
    {0},
};
#undef AT

#define LAYER(parent)                \
    {"layer",                        \
     JSON_OBJ,                       \
     offsetof(struct parent, layer), \
     OPTIONAL,                       \
     .fields = layer_fields,         \
     .present = offsetof(struct parent, has_layer)}

#define AT wire_step_wanted
const struct json_field wire_step_wanted_fields[] = {
    FENCE,
    TEXT("step_digest", step_digest, REQUIRED, DIGEST_MAX),
    {0},
};
#undef AT

#define AT wire_step_found
const struct json_field wire_step_found_fields[] = {
    TEXT("state", state, REQUIRED, 8),
    LAYER(wire_step_found),
    {0},
};
#undef AT

#define AT wire_step_done
const struct json_field wire_step_done_fields[] = {
    FENCE,
    TEXT("step_digest", step_digest, REQUIRED, DIGEST_MAX),
    LAYER(wire_step_done),
    {0},
};
#undef AT

#define AT wire_images_held
const struct json_field wire_images_held_fields[] = {
    NUMBER("epoch", epoch, REQUIRED),
    TEXTS("images", images, REQUIRED, WIRE_IMAGES_HELD_MAX),
    {0},
};
#undef AT

#define AT wire_images_gone
const struct json_field wire_images_gone_fields[] = {
    TEXTS("gone", gone, REQUIRED, WIRE_IMAGES_HELD_MAX),
    {0},
};
#undef AT

#define AT wire_build_image
static const struct json_field build_image_fields[] = {
    TEXT("id", id, REQUIRED, 128),
    TEXT("digest", digest, REQUIRED, DIGEST_MAX),
    NUMBER("size", size, REQUIRED),
    LIST("objects", objects, OPTIONAL, WIRE_IMAGE_OBJECTS_MAX, object_fields, wire_object),
    {0},
};
#undef AT

#define AT wire_build_complete
const struct json_field wire_build_complete_fields[] = {
    FENCE,
    TEXT("outcome", outcome, REQUIRED, 16),
    TEXT("fingerprint", fingerprint, REQUIRED, DIGEST_MAX),
    FAILURE(wire_build_complete),
    RAW("manifest", manifest, OPTIONAL),
    LIST("images", images, OPTIONAL, 256, build_image_fields, wire_build_image),
    PART("bundle", bundle, OPTIONAL, object_fields),
    {0},
};
#undef AT

#define AT wire_drained
const struct json_field wire_drained_fields[] = {
    NUMBER("epoch", epoch, REQUIRED),
    {0},
};
#undef AT

static void write_list(struct json_writer *writer, const struct json_field *field,
                       const struct json_list *list)
{
    json_open_list(writer, field->name);
    for (size_t i = 0; i < list->n; i++) {
        if (field->fields)
            wire_write(writer, NULL, field->fields, (const char *)list->items + i * field->size);
        else
            json_text(writer, NULL, ((const struct str *)list->items)[i]);
    }
    json_close_list(writer);
}

static void write_map(struct json_writer *writer, const char *name, const struct json_map *map)
{
    json_open(writer, name);
    for (size_t i = 0; i < map->n; i++) {
        /* Names of maps are bounded by the reader and kept NUL-terminated by its arena. */
        json_text(writer, map->pairs[i].name.ptr, map->pairs[i].value);
    }
    json_close(writer);
}

static bool is_absent(const struct json_field *field, const char *base)
{
    const void *at = base + field->offset;

    if (field->need == REQUIRED)
        return false;
    if (field->present)
        return !*(const bool *)(base + field->present);
    if (field->kind == JSON_TEXT || field->kind == JSON_RAW)
        return !((const struct str *)at)->ptr;
    if (field->kind == JSON_LIST)
        return ((const struct json_list *)at)->n == 0;
    if (field->kind == JSON_MAP)
        return ((const struct json_map *)at)->n == 0;
    if (field->kind == JSON_OBJ) /* an optional part without a flag: absent with its first text */
        return !((const struct str *)at)->ptr;
    return false;
}

void wire_write(struct json_writer *writer, const char *name, const struct json_field *fields,
                const void *from)
{
    const char *base = from;

    json_open(writer, name);
    for (const struct json_field *field = fields; field->name; field++) {
        const void *at = base + field->offset;

        if (is_absent(field, base))
            continue;
        switch (field->kind) {
        case JSON_TEXT: json_text(writer, field->name, *(const struct str *)at); break;
        case JSON_INTEGER: json_int(writer, field->name, *(const int64_t *)at); break;
        case JSON_BOOL: json_bool(writer, field->name, *(const bool *)at); break;
        case JSON_RAW: json_raw(writer, field->name, *(const struct str *)at); break;
        case JSON_OBJ: wire_write(writer, field->name, field->fields, at); break;
        case JSON_LIST: write_list(writer, field, at); break;
        case JSON_MAP: write_map(writer, field->name, at); break;
        case JSON_NUMBER: break; /* no message here has a fraction */
        }
    }
    json_close(writer);
}
