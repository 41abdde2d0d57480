/* The life of a mount, and of the programs in it. */
#include "protocol/worker_api_mount.h"
#include "protocol/files.h"
#include "protocol/worker_fields.h"

#define AT wire_mount_ready
const struct json_field wire_mount_ready_fields[] = {
    FENCE,
    NUMBER("generation", generation, REQUIRED),
    {0},
};
#undef AT

#define AT wire_mount_version
const struct json_field wire_mount_version_fields[] = {
    FENCE,
    ID("operation_id", operation_id, REQUIRED),
    TEXT("fingerprint", fingerprint, REQUIRED, DIGEST_MAX),
    VERSION(wire_mount_version),
    {0},
};
#undef AT

#define AT wire_mount_closed
const struct json_field wire_mount_closed_fields[] = {
    FENCE,
    TEXT("reason", reason, REQUIRED, WIRE_TEXT_MAX),
    {0},
};
#undef AT

#define AT wire_process_chunk
static const struct json_field process_chunk_fields[] = {
    ID("process_id", process_id, REQUIRED),
    TEXT("stream", stream, REQUIRED, 8),
    NUMBER("offset", offset, REQUIRED),
    TEXT("data", data, OPTIONAL, WIRE_LOG_MAX),
    NUMBER("observed_ms", observed_ms, REQUIRED),
    NUMBER("len", len, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_process_state
static const struct json_field process_state_fields[] = {
    ID("process_id", process_id, REQUIRED),
    TEXT("state", state, REQUIRED, 16),
    NUMBER("pid", pid, OPTIONAL),
    NUMBER("exit_code", exit_code, OPTIONAL),
    TEXT("signal", signal, OPTIONAL, 16),
    TEXT("error", error, OPTIONAL, WIRE_TEXT_MAX),
    NUMBER("input_offset", input_offset, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_process
const struct json_field wire_process_fields[] = {
    FENCE,
    LIST("chunks", chunks, OPTIONAL, WIRE_CHUNKS_MAX, process_chunk_fields, wire_process_chunk),
    LIST("processes", processes, OPTIONAL, WIRE_CHUNKS_MAX, process_state_fields,
         wire_process_state),
    {0},
};
#undef AT

#define AT wire_process_end
static const struct json_field process_end_fields[] = {
    ID("process_id", process_id, REQUIRED),
    TEXT("stream", stream, REQUIRED, 8),
    NUMBER("offset", offset, REQUIRED),
    {0},
};
#undef AT

#define AT wire_process_answer
const struct json_field wire_process_answer_fields[] = {
    LIST("durable", durable, OPTIONAL, WIRE_CHUNKS_MAX, process_end_fields, wire_process_end),
    {0},
};
#undef AT

#define AT wire_file
const struct json_field wire_file_fields[] = {
    FENCE,
    ID("request_id", request_id, REQUIRED),
    TEXT("code", code, OPTIONAL, 64),
    TEXT("text", text, OPTIONAL, WIRE_TEXT_MAX),
    TEXT("data", data, OPTIONAL, 4 * ((int64_t)FILES_DATA_MAX / 3 + 1)),
    NUMBER("size", size, OPTIONAL),
    FLAG("more", more, OPTIONAL),
    {0},
};
#undef AT

#define AT wire_snapshot
const struct json_field wire_snapshot_fields[] = {
    FENCE,
    TEXTS("request_ids", request_ids, REQUIRED, WIRE_SNAPSHOT_WISHES),
    TEXT("code", code, OPTIONAL, 64),
    TEXT("text", text, OPTIONAL, WIRE_TEXT_MAX),
    VERSION(wire_snapshot),
    {0},
};
#undef AT
