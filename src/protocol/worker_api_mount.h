/* What a worker says of a workspace it has mounted, and of the programs in it. */
#pragma once

#include "protocol/worker_api.h"

enum { WIRE_SNAPSHOT_WISHES = 64 };

/* The workspace is in place: programs may begin. */
struct wire_mount_ready {
    struct wire_fence fence;
    int64_t generation;
};

/* What changed since the mount began, as a user's version; replayed by operation id. Without a
 * version nothing had changed. */
struct wire_mount_version {
    struct wire_fence fence;
    struct str operation_id, fingerprint;
    bool has_version;
    struct wire_version version;
};

/* The mount is over, with nothing unsaved. */
struct wire_mount_closed {
    struct wire_fence fence;
    struct str reason; /* idle | stopped | drained, or a sentence */
};

/* Output and states of programs in one call: chunks are stored first, in order. */
struct wire_process_chunk {
    struct str process_id, stream; /* stdout | stderr | output */
    int64_t offset, observed_ms;
    struct str data; /* base64; absent: `len` raw bytes, in order, after the message's newline */
    int64_t len;
};
struct wire_process_state {
    struct str process_id;
    struct str state; /* started | running (its input moved) | exited | failed */
    int64_t pid, exit_code;
    struct str signal;    /* the name without SIG; absent: it ended by itself, with exit_code */
    struct str error;     /* why it could not start, or what else ended it */
    int64_t input_offset; /* bytes of its input that it was given */
};
struct wire_process {
    struct wire_fence fence;
    struct json_list chunks;    /* struct wire_process_chunk */
    struct json_list processes; /* struct wire_process_state */
};
struct wire_process_end {
    struct str process_id, stream;
    int64_t offset; /* stored up to here */
};
struct wire_process_answer {
    struct json_list durable; /* struct wire_process_end, of the streams the call named */
};

/* The answer to a file_request. */
struct wire_file {
    struct wire_fence fence;
    struct str request_id;
    struct str code, text; /* of what went wrong, as the agent says it; absent: nothing did */
    struct str data;       /* base64: bytes, or entries (protocol/files.h) */
    int64_t size;          /* of the file */
    bool more;             /* the list goes on */
};

/* The answer to one or more workspace_snapshot, also of a run: what the sandbox held, as a system's
 * version. Without one it is what the image holds, or went wrong (code, text). */
struct wire_snapshot {
    struct wire_fence fence;
    struct json_list request_ids; /* struct str */
    struct str code, text;
    bool has_version;
    struct wire_version version;
};

extern const struct json_field wire_file_fields[], wire_snapshot_fields[];
extern const struct json_field wire_mount_ready_fields[], wire_mount_version_fields[],
    wire_mount_closed_fields[], wire_process_fields[], wire_process_answer_fields[];
