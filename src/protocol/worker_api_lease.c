/* The life of a lease: from its begin to its result, and what builds say. */
#include "protocol/worker_fields.h"

#define AT wire_fence
const struct json_field wire_fence_fields[] = {
    NUMBER("epoch", epoch, REQUIRED),
    ID("lease_id", lease_id, REQUIRED),
    NUMBER("sequence", sequence, REQUIRED),
    {0},
};
#undef AT

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
    TEXT("level", level, OPTIONAL, 1),
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

#define AT wire_version
const struct json_field wire_version_fields[] = {
    ID("id", id, REQUIRED),
    TEXT("manifest", manifest, REQUIRED, DIGEST_MAX),
    TEXT("tree_digest", tree_digest, REQUIRED, DIGEST_MAX),
    LIST("objects", objects, REQUIRED, WIRE_MANIFEST_OBJECTS_MAX, wire_object_fields, wire_object),
    NUMBER("size_bytes", size_bytes, REQUIRED),
    NUMBER("entries", entries, REQUIRED),
    NUMBER("files_read", files_read, OPTIONAL),
    NUMBER("bytes_read", bytes_read, OPTIONAL),
    NUMBER("capture_ms", capture_ms, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_op
static const struct json_field op_fields[] = {
    NUMBER("op", op, REQUIRED),
    TEXT("kind", kind, REQUIRED, 64),
    {"body", JSON_RAW, offsetof(struct AT, body), REQUIRED, .max = WIRE_OP_BODY_MAX},
    {0},
};
#undef AT

#define AT wire_ops
const struct json_field wire_ops_fields[] = {
    FENCE,
    LIST("operations", operations, REQUIRED, WIRE_OPS_MAX, op_fields, wire_op),
    {0},
};
#undef AT

#define AT wire_op_result
static const struct json_field op_result_fields[] = {
    NUMBER("op", op, REQUIRED),
    FLAG("ok", ok, REQUIRED),
    {"body", JSON_RAW, offsetof(struct AT, body), OPTIONAL, .max = WIRE_OP_BODY_MAX},
    ID("wait_id", wait_id, OPTIONAL),
    NUMBER("park_at_ms", park_at_ms, OPTIONAL),
    FLAG("is_live", is_live, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_op_results
const struct json_field wire_op_results_fields[] = {
    LIST("results", results, REQUIRED, WIRE_OPS_MAX, op_result_fields, wire_op_result),
    {0},
};
#undef AT

#define AT wire_checkpoint_begin
const struct json_field wire_checkpoint_begin_fields[] = {
    FENCE,
    ID("wait_id", wait_id, REQUIRED),
    ID("checkpoint_id", checkpoint_id, REQUIRED),
    {0},
};
#undef AT

#define AT wire_checkpoint_begun
const struct json_field wire_checkpoint_begun_fields[] = {
    FLAG("proceed", proceed, REQUIRED),
    {0},
};
#undef AT

#define AT wire_checkpoint_stage
const struct json_field wire_checkpoint_stage_fields[] = {
    FENCE,
    ID("checkpoint_id", checkpoint_id, REQUIRED),
    TEXT("manifest", manifest, REQUIRED, DIGEST_MAX),
    TEXT("key_id", key_id, REQUIRED, 16),
    TEXT("compat", compat, REQUIRED, DIGEST_MAX),
    LIST("objects", objects, REQUIRED, WIRE_MANIFEST_OBJECTS_MAX, wire_object_fields, wire_object),
    NUMBER("logical_bytes", logical_bytes, REQUIRED),
    NUMBER("stored_bytes", stored_bytes, REQUIRED),
    NUMBER("op", op, REQUIRED),
    NUMBER("ms", ms, REQUIRED),
    FLAG("can_fork", can_fork, OPTIONAL),
    VERSION(wire_checkpoint_stage),
    {0},
};
#undef AT

#define AT wire_checkpoint_ready
const struct json_field wire_checkpoint_ready_fields[] = {
    FENCE,
    ID("checkpoint_id", checkpoint_id, REQUIRED),
    {0},
};
#undef AT

#define AT wire_checkpoint_abort
const struct json_field wire_checkpoint_abort_fields[] = {
    FENCE,
    ID("checkpoint_id", checkpoint_id, REQUIRED),
    TEXT("code", code, REQUIRED, 64),
    TEXT("detail", detail, OPTIONAL, WIRE_TEXT_MAX),
    {0},
};
#undef AT

#define AT wire_checkpoint_aborted
const struct json_field wire_checkpoint_aborted_fields[] = {
    NUMBER("retry_after_ms", retry_after_ms, REQUIRED),
    {0},
};
#undef AT

#define AT wire_resumed
const struct json_field wire_resumed_fields[] = {
    FENCE,
    ID("wait_id", wait_id, REQUIRED),
    TEXT("mode", mode, REQUIRED, 16),
    NUMBER("resume_version", resume_version, REQUIRED),
    NUMBER("resume_ms", resume_ms, REQUIRED),
    {0},
};
#undef AT

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
    VERSION(wire_complete),
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

#define AT wire_begun
const struct json_field wire_begun_fields[] = {
    LIST("secrets", secrets, OPTIONAL, WIRE_SECRETS_MAX, secret_fields, wire_secret),
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
    LIST("objects", objects, OPTIONAL, WIRE_IMAGE_OBJECTS_MAX, wire_object_fields, wire_object),
    {0},
};
#undef AT

#define AT wire_import
const struct json_field wire_import_fields[] = {
    TEXT("task_id", task_id, REQUIRED, 128),
    FLAG("preload", preload, REQUIRED),
    TEXT("reason", reason, OPTIONAL, WIRE_TEXT_MAX),
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
    LIST("imports", imports, OPTIONAL, WIRE_IMPORTS_MAX, wire_import_fields, wire_import),
    PART("bundle", bundle, OPTIONAL, wire_object_fields),
    {0},
};
#undef AT

#define AT wire_drained
const struct json_field wire_drained_fields[] = {
    NUMBER("epoch", epoch, REQUIRED),
    {0},
};
#undef AT
