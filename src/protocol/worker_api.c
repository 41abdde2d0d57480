#include "protocol/worker_fields.h"

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
    NUMBER("hot_time_ms", hot_time_ms, REQUIRED),
    {0},
};
#undef AT

#define AT wire_store_key
static const struct json_field store_key_fields[] = {
    TEXT("key", key, REQUIRED, 64),
    {0},
};
#undef AT

#define STORE_KEYS LIST("store_keys", store_keys, OPTIONAL, 16, store_key_fields, wire_store_key)

#define AT wire_session_open
const struct json_field wire_session_open_fields[] = {
    NUMBER("epoch", epoch, REQUIRED),
    TEXT("bearer", bearer, REQUIRED, NAME_MAX_LEN),
    NUMBER("bearer_expires_ms", bearer_expires_ms, REQUIRED),
    NUMBER("server_time_ms", server_time_ms, REQUIRED),
    PART("settings", settings, REQUIRED, settings_fields),
    STORE_KEYS,
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
    STORE_KEYS,
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
    FLAG("memory_checkpoint", memory_checkpoint, OPTIONAL),
    TEXT("checkpoint_key_id", checkpoint_key_id, OPTIONAL, 16),
    TEXT("compat", compat, OPTIONAL, DIGEST_MAX),
    PAIRS("compat_facts", compat_facts, OPTIONAL, 32),
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

#define AT wire_warm
static const struct json_field warm_fields[] = {
    TEXTS("templates", templates, OPTIONAL, WARM_MAX),
    TEXTS("checkpoints", checkpoints, OPTIONAL, WARM_MAX),
    TEXTS("drives", drives, OPTIONAL, WARM_MAX),
    {0},
};
#undef AT

#define AT wire_poll
const struct json_field wire_poll_fields[] = {
    NUMBER("epoch", epoch, REQUIRED),          NUMBER("cursor", cursor, REQUIRED),
    NUMBER("wait_ms", wait_ms, REQUIRED),      TEXTS("accept", accept, REQUIRED, 8),
    PART("free", room, REQUIRED, room_fields), TEXTS("known", known, OPTIONAL, LEASES_MAX),
    PART("warm", warm, OPTIONAL, warm_fields), {0},
};
#undef AT

#define AT wire_object
const struct json_field wire_object_fields[] = {
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
    FLAG("preload", preload, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_deployment
static const struct json_field deployment_fields[] = {
    ID("id", id, REQUIRED),
    TEXT("version", version, REQUIRED, 32),
    PART("bundle", bundle, REQUIRED, wire_object_fields),
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
    TEXTS("ports", ports, OPTIONAL, WIRE_PORTS_MAX),
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
    TEXT("base_manifest", base_manifest, OPTIONAL, DIGEST_MAX),
    RAW("payload", payload, OPTIONAL),
    RAW("secret_names", secret_names, OPTIONAL),
    NUMBER("active_ms", active_ms, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_resume_grant
static const struct json_field resume_grant_fields[] = {
    ID("wait_id", wait_id, REQUIRED),
    ID("checkpoint_id", checkpoint_id, REQUIRED),
    TEXT("manifest", manifest, REQUIRED, DIGEST_MAX),
    TEXT("key_id", key_id, REQUIRED, 16),
    NUMBER("op", op, REQUIRED),
    NUMBER("resume_version", resume_version, REQUIRED),
    NUMBER("settled_ms", settled_ms, REQUIRED),
    RAW("decision", decision, REQUIRED),
    ID("forked_from", forked_from, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_build_grant
static const struct json_field build_grant_fields[] = {
    ID("deployment_id", deployment_id, REQUIRED),
    TEXT("version", version, OPTIONAL, 32),
    TEXT("project", project, REQUIRED, 64),
    PART("source", source, REQUIRED, wire_object_fields),
    PAIRS("env", env, OPTIONAL, 256),
    FLAG("no_cache", no_cache, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_mount_grant
static const struct json_field mount_grant_fields[] = {
    ID("mount_id", mount_id, REQUIRED),
    ID("workspace_id", workspace_id, REQUIRED),
    TEXT("project", project, REQUIRED, 64),
    NUMBER("generation", generation, REQUIRED),
    NUMBER("idle_ms", idle_ms, REQUIRED),
    PART("deployment", deployment, REQUIRED, deployment_fields),
    PART("sandbox", sandbox, REQUIRED, sandbox_fields),
    ID("base_version_id", base_version_id, OPTIONAL),
    TEXT("base_manifest", base_manifest, OPTIONAL, DIGEST_MAX),
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
    {"resume", JSON_OBJ, offsetof(struct wire_grant, resume), OPTIONAL,
                                          .fields = resume_grant_fields, .present = offsetof(struct wire_grant, has_resume)},
    {"build", JSON_OBJ, offsetof(struct wire_grant, build), OPTIONAL, .fields = build_grant_fields,
                                          .present = offsetof(struct wire_grant, has_build)},
    {"mount", JSON_OBJ, offsetof(struct wire_grant, mount), OPTIONAL, .fields = mount_grant_fields,
                                          .present = offsetof(struct wire_grant, has_mount)},
    {0},
};
#undef AT

#define AT wire_message
#define MOUNT_MESSAGE                                                                         \
    ID("process_id", process_id, OPTIONAL), TEXT("process_kind", process_kind, OPTIONAL, 8),  \
        TEXTS("command", command, OPTIONAL, WIRE_ARGS_MAX),                                   \
        TEXT("cwd", cwd, OPTIONAL, WIRE_PATH_MAX), PAIRS("env", env, OPTIONAL, WIRE_ENV_MAX), \
        NUMBER("cols", cols, OPTIONAL), NUMBER("rows", rows, OPTIONAL),                       \
        NUMBER("timeout_ms", timeout_ms, OPTIONAL), NUMBER("offset", offset, OPTIONAL),       \
        TEXT("data", data, OPTIONAL, WIRE_INPUT_MAX), TEXT("signal", signal, OPTIONAL, 8),    \
        FLAG("capture", capture, OPTIONAL), ID("request_id", request_id, OPTIONAL),           \
        TEXT("op", op, OPTIONAL, 16), TEXT("path", path, OPTIONAL, WIRE_PATH_MAX),            \
        NUMBER("length", length, OPTIONAL), TEXT("name", name, OPTIONAL, 255)

static const struct json_field message_fields[] = {
    NUMBER("cursor", cursor, REQUIRED),
    ID("lease_id", lease_id, OPTIONAL),
    TEXT("type", type, REQUIRED, 32),
    TEXT("reason", reason, OPTIONAL, WIRE_TEXT_MAX),
    FLAG("force", force, OPTIONAL),
    ID("wait_id", wait_id, OPTIONAL),
    RAW("decision", decision, OPTIONAL),
    MOUNT_MESSAGE,
    {0},
};

/* What is kept of a mount's message until it is delivered. */
const struct json_field wire_message_body_fields[] = {MOUNT_MESSAGE, {0}};
#undef AT

#define AT wire_poll_answer
const struct json_field wire_poll_answer_fields[] = {
    LIST("grants", grants, REQUIRED, 64, wire_grant_fields, wire_grant),
    LIST("messages", messages, REQUIRED, 256, message_fields, wire_message),
    NUMBER("cursor", cursor, REQUIRED),
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
