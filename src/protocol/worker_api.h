/* What server and worker say to each other: POST /api/worker/<route>, JSON both ways.
 *
 * Each message is a struct and a table of its fields; the same table reads and writes it,
 * so the two sides cannot drift. Unknown fields are refused. Times are milliseconds since
 * 1970. Every write of a lease carries its fence: epoch, lease id, sequence.
 */
#pragma once

#include "base/json.h"

#define WORKER_PROTOCOL        "helmr.worker.v0"
#define WORKER_PROTOCOL_HEADER "Helmr-Worker-Protocol: " WORKER_PROTOCOL

/* On the PUT of an object that its writer has sealed: pack or manifest. Without it the bytes are a
 * blob's, which the server seals. */
#define WORKER_OBJECT_CLASS "Helmr-Object-Class"

enum {
    WIRE_ID_MAX = 36,
    WIRE_TEXT_MAX = 1024,
    WIRE_JSON_MAX = 16 * 1024 * 1024 + 64 * 1024, /* a payload or an output */
    WIRE_LOG_MAX = 2 * 1024 * 1024,               /* base64 of one chunk */
    WIRE_CHUNKS_MAX = 64,
    WIRE_SECRETS_MAX = 64,
    WIRE_SECRET_VALUE_MAX = 64 * 1024,
    WIRE_IMAGE_OBJECTS_MAX = 256,
    WIRE_IMAGES_HELD_MAX = 4096,
    WIRE_IMPORTS_MAX = 1000, /* as many as tasks */
    WIRE_OPS_MAX = 64,
    WIRE_OP_BODY_MAX = 512 * 1024, /* of a body of 256 KiB, escaped */
    WIRE_MANIFEST_OBJECTS_MAX = 1024,
    WIRE_PORTS_MAX = 64,
    WIRE_ARGS_MAX = 128,
    WIRE_ENV_MAX = 128,
    WIRE_INPUT_MAX = 384 * 1024, /* base64 of 256 KiB */
    WIRE_PATH_MAX = 4096,
};

/* Appends the struct as JSON by its table. Absent optional texts (ptr NULL) are left out. */
void wire_write(struct json_writer *writer, const char *name, const struct json_field *fields,
                const void *from);

/* --- enrolment --- */

struct wire_register {
    struct str token, resource_id, machine_id, group, version, protocol;
    struct json_list roles; /* struct str */
    struct json_map labels;
};
struct wire_registered {
    struct str worker_id, group_id, credential;
};

struct wire_reclaimed {
    struct str instance_id, lease_id, result, detail; /* result: gone | quarantined */
};
struct wire_session {
    struct str worker_id, credential, boot_id, machine_id, protocol;
    struct json_list reclaimed;
};
struct wire_settings {
    int64_t lease_ttl_ms, cancel_grace_ms, hot_time_ms;
};
struct wire_store_key {
    struct str key; /* base64 of 32 bytes; sealed objects name it by its id */
};
struct wire_session_open {
    int64_t epoch, bearer_expires_ms, server_time_ms;
    struct str bearer;
    struct wire_settings settings;
    struct json_list store_keys; /* struct wire_store_key, the current one first */
};

struct wire_bearer {
    struct str worker_id, credential;
    int64_t epoch;
};
struct wire_bearer_given {
    struct str bearer;
    int64_t bearer_expires_ms;
    struct json_list store_keys; /* struct wire_store_key */
};

/* --- capacity and capabilities --- */

struct wire_room {
    int64_t cpu_millis, memory_mib, disk_mib, slots, build_slots;
};
struct wire_probe {
    struct str engine, grade, reason;
    bool usable;
};
struct wire_capabilities {
    struct str version, protocol, arch, privilege, cni_profile;
    struct json_list roles;
    struct json_map labels;
    struct str engine, grade, engine_build;
    bool accelerated;
    struct json_list probes; /* struct wire_probe */
    struct str rootfs_digest, kernel_digest;
    int64_t guest_abi;
    int64_t vcpus, memory_mib, disk_mib, execution_slots, build_slots;
    int64_t max_vcpus, max_memory_mib;

    /* Checkpoints. compat is a digest over the facts: equal ones may exchange checkpoints. */
    bool memory_checkpoint;
    struct str checkpoint_key_id; /* hex */
    struct str compat;            /* hex */
    struct json_map compat_facts; /* engine, engine_build, arch, rootfs_digest, cpu … in words */
};
struct wire_activate {
    int64_t epoch;
    struct wire_capabilities capabilities;
};
struct wire_state {
    struct str state;
};

struct wire_instance {
    struct str instance_id, lease_id, state;
    int64_t sequence;
};
struct wire_heartbeat {
    int64_t epoch, number;
    struct wire_room room;
    struct json_list paused;      /* struct str: reasons */
    struct json_list quarantined; /* struct str: instance ids */
    struct json_list instances;   /* struct wire_instance */
};
struct wire_heartbeat_answer {
    int64_t server_time_ms;
    struct str desired_state;        /* active | draining | disabled */
    struct json_list unknown_leases; /* struct str: the worker destroys these */
};

/* --- polling --- */

/* What a worker has ready, newest first: of runs that are otherwise equal it gets one of these. */
struct wire_warm {
    struct json_list templates;   /* struct str: digests of bundles */
    struct json_list checkpoints; /* struct str: ids */
    struct json_list drives;      /* struct str: digests of images */
};
struct wire_poll {
    int64_t epoch, cursor, wait_ms;
    struct json_list accept; /* struct str: run, resume, build, mount */
    struct wire_room room;
    struct json_list known; /* struct str: lease ids the worker holds */
    struct wire_warm warm;
};

struct wire_object {
    struct str digest; /* sha256 in hex */
    int64_t size;
};
struct wire_task {
    struct str id, module, export_name;
    bool preload; /* the module may be imported before the run is known */
};
struct wire_deployment {
    struct str id, version;
    struct wire_object bundle;
};
struct wire_sandbox {
    struct str id, image;            /* manifest digest */
    struct str image_id, mount_path; /* image_id: as the project names it */
    int64_t vcpus, memory_mib, disk_mib;
    bool internet;
    struct json_list deny;  /* struct str: CIDRs */
    struct json_list ports; /* struct str: those that may be reached from outside, in decimal */
};
struct wire_run_grant {
    struct str run_id, attempt_id, session_id, workspace_id;
    struct str project; /* its slug */
    int64_t attempt, max_duration_ms;
    struct wire_task task;
    struct wire_deployment deployment;
    struct wire_sandbox sandbox;
    struct str base_manifest; /* of the version the workspace has; absent: none */
    struct str payload;       /* JSON */
    struct str secret_names;  /* JSON list; ptr NULL: none */
    int64_t active_ms;        /* of max_duration_ms that the attempt has used */
};

/* The rest of a run that was parked: its checkpoint and the answer it waits for. */
struct wire_resume_grant {
    struct str wait_id, checkpoint_id, manifest, key_id; /* manifest: the object's digest */
    int64_t op, resume_version;                          /* op: of the program's wait.open */
    int64_t settled_ms;                                  /* when the answer was accepted */
    struct str decision;                                 /* JSON: what the wait came to */
    struct str forked_from;                              /* run id; absent: not a fork */
};
struct wire_build_grant {
    struct str deployment_id, version;
    struct str project; /* its slug */
    struct wire_object source;
    struct json_map env;
    bool no_cache;
};
/* A workspace in a sandbox without a run: commands, terminals, files and ports of people. */
struct wire_mount_grant {
    struct str mount_id, workspace_id;
    struct str project; /* its slug */
    int64_t generation; /* of this writer; lower ones are refused */
    int64_t idle_ms;    /* without a process, a relay or a request the mount is captured and ends */
    struct wire_deployment deployment;
    struct wire_sandbox sandbox;
    struct str base_version_id, base_manifest; /* absent: the workspace has no version */
};
struct wire_grant {
    struct str kind; /* run | resume | build | mount */
    struct str lease_id, environment_id, project_id;
    int64_t sequence, expires_ms;
    bool has_run, has_resume, has_build; /* a resume has both the run and the resume part */
    bool has_mount;
    struct wire_run_grant run;
    struct wire_resume_grant resume;
    struct wire_build_grant build;
    struct wire_mount_grant mount;
};
struct wire_message {
    int64_t cursor;
    struct str lease_id, type; /* cancel | wait_settled | park_now | drain | undrain, or of a mount:
                                * process_start | _input | _input_close | _resize | _signal |
                                * _close, mount_stop, file_request, relay_open; of a run too:
                                * workspace_snapshot */
    struct str reason;
    bool force;
    struct str wait_id, decision; /* wait_settled, park_now */

    /* of a mount; delivered at least once, so that process id and offset tell repetitions */
    struct str process_id, process_kind; /* exec | pty */
    struct json_list command;            /* struct str; of execs */
    struct str cwd;                      /* absent: the mount path */
    struct json_map env;
    int64_t cols, rows;
    int64_t timeout_ms; /* for information: the server sends the signals; 0: none */
    int64_t offset;     /* of the input's first byte; of a file request */
    struct str data;    /* base64 */
    struct str signal;  /* TERM | KILL | INT | HUP */
    bool capture;       /* mount_stop: what changed becomes a version */
    struct str request_id, op, path;
    int64_t length;
    struct str name; /* relay_open; of a file request that lists, the name it goes on after */
};
struct wire_poll_answer {
    struct json_list grants, messages;
    int64_t cursor;
};

/* --- the life of a lease --- */

struct wire_fence {
    int64_t epoch, sequence;
    struct str lease_id;
};
struct wire_begin {
    struct wire_fence fence;
};
struct wire_phase {
    struct str step;
    int64_t ms;
};
struct wire_start {
    struct wire_fence fence;
    struct str engine, grade, start; /* start: boot | standby | template | checkpoint */
    struct str level; /* a: Node waited; b: with the task's module imported; absent: nothing did */
    bool accelerated;
    int64_t start_ms;
    struct json_list phases;
};
struct wire_renew {
    struct wire_fence fence;
    int64_t expires_ms; /* the one the worker holds */
    int64_t active_ms, cpu_ms, memory_peak;
};
struct wire_lease_times {
    int64_t expires_ms, hard_deadline_ms; /* hard deadline 0: none */
};
struct wire_reject {
    struct wire_fence fence;
    struct str layer, failure_kind, code, stage, text;
    bool retryable;
};
struct wire_release {
    struct wire_fence fence;
    struct str reason;
};
struct wire_log_chunk {
    struct str stream; /* stdout | stderr */
    int64_t offset, observed_ms;
    struct str data; /* base64; absent: `len` raw bytes, in order, after the message's newline */
    int64_t len;
};
struct wire_logs {
    struct wire_fence fence;
    struct json_list chunks;
};
struct wire_logs_answer {
    int64_t stdout_end, stderr_end; /* stored up to here */
};
struct wire_event {
    struct str op;               /* unique within the lease: a repeated one is ignored */
    struct str kind, attributes; /* attributes: a JSON object */
    int64_t at_ms;
};
struct wire_events {
    struct wire_fence fence;
    struct json_list events;
};

/* What the program asks of the server while it runs, in order; repeated ones are replayed. */
struct wire_op {
    int64_t op;            /* the program's number */
    struct str kind, body; /* wait.open, token.create …; body: JSON */
};
struct wire_ops {
    struct wire_fence fence;
    struct json_list operations; /* struct wire_op */
};
struct wire_op_result {
    int64_t op;
    bool ok;
    struct str body; /* JSON: the result, or {code, message} */

    /* A wait that is still open: its result comes as a wait_settled message. */
    struct str wait_id;
    int64_t park_at_ms; /* not before; 0: never park this one */
    bool is_live;       /* not even to make room: the program listens as it runs */
};
struct wire_op_results {
    struct json_list results; /* struct wire_op_result */
};

struct wire_version {
    struct str id, manifest, tree_digest; /* manifest: the object's digest */
    struct json_list objects;             /* struct wire_object: manifest and packs it needs */
    int64_t size_bytes, entries;
    int64_t files_read, bytes_read; /* in the sandbox, to make it */
    int64_t capture_ms;             /* until all of it was stored */
};
struct wire_checkpoint_begin {
    struct wire_fence fence;
    struct str wait_id, checkpoint_id;
};
struct wire_checkpoint_begun {
    bool proceed; /* false: settled meanwhile */
};
struct wire_checkpoint_stage {
    struct wire_fence fence;
    struct str checkpoint_id, manifest, key_id, compat; /* manifest: the object's digest */
    struct json_list objects;                           /* struct wire_object: all it needs */
    int64_t logical_bytes, stored_bytes, op, ms;
    bool can_fork; /* the program can be given new entropy */
    bool has_version;
    struct wire_version version; /* of the workspace; absent: unchanged since the last */
};
struct wire_checkpoint_ready {
    struct wire_fence fence;
    struct str checkpoint_id;
};
struct wire_checkpoint_abort {
    struct wire_fence fence;
    struct str checkpoint_id, code, detail;
};
struct wire_checkpoint_aborted {
    int64_t retry_after_ms;
};
struct wire_resumed {
    struct wire_fence fence;
    struct str wait_id, mode; /* hot | restored */
    int64_t resume_version, resume_ms;
};

struct wire_finalize {
    struct wire_fence fence;
    struct str operation_id, outcome, fingerprint; /* outcome: succeeded | failed | cancelled */
};
struct wire_finalize_answer {
    bool proceed, cancelled;
};
struct wire_failure {
    struct str layer, failure_kind, message;
    struct str details; /* JSON object or absent */
};
struct wire_complete {
    struct wire_fence fence;
    struct str operation_id, outcome, fingerprint;
    int64_t exit_code, active_ms;
    struct str output; /* JSON or absent */
    bool has_failure;
    struct wire_failure failure;
    int64_t stdout_end, stderr_end;
    bool has_version;
    struct wire_version version; /* what the workspace came to */
};
struct wire_completed {
    struct str run_status;
};

/* --- builds --- */

/* Secrets: a live build gets those it names, a run that starts those its task declares. */
struct wire_secrets_wanted {
    struct wire_fence fence;
    struct json_list names; /* struct str; of builds */
};
struct wire_secret {
    struct str name, value;
    int64_t version;

    /* of runs */
    struct str placement, target; /* env | file | dir */
    struct str mode, owner;       /* octal; both may be absent */
};
struct wire_secrets {
    struct json_list secrets; /* struct wire_secret */
};

/* To begin: of a run whose secrets could all be opened, these. Otherwise they are to be asked
 * for, and that answer says why not. */
struct wire_begun {
    struct json_list secrets; /* struct wire_secret */
};

/* Steps finished by any worker. yours: do it, others wait; busy: ask again in a while. */
struct wire_layer {
    struct str digest, diff_id; /* sha256:<hex>; the digest's digits name the object */
    int64_t size;
};
struct wire_step_wanted {
    struct wire_fence fence;
    struct str step_digest;
};
struct wire_step_found {
    struct str state; /* hit | yours | busy */
    bool has_layer;   /* a hit without one changed no file */
    struct wire_layer layer;
};
struct wire_step_done {
    struct wire_fence fence;
    struct str step_digest;
    bool has_layer;
    struct wire_layer layer;
};

/* Which of these images (manifest digests) a worker need not keep. */
struct wire_images_held {
    int64_t epoch;
    struct json_list images; /* struct str */
};
struct wire_images_gone {
    struct json_list gone; /* struct str */
};

struct wire_build_image {
    struct str id, digest; /* sha256:<hex> of the manifest */
    int64_t size;
    struct json_list objects; /* struct wire_object: manifest, configuration and layers */
};
/* What was observed when the task's module was imported inside its image. */
struct wire_import {
    struct str task_id;
    bool preload;      /* it may happen ahead of a run */
    struct str reason; /* why not; absent: it may */
};
struct wire_build_complete {
    struct wire_fence fence;
    struct str outcome, fingerprint; /* outcome: succeeded | failed */
    bool has_failure;
    struct wire_failure failure;
    struct str manifest;      /* JSON of the evaluated project: tasks, sandboxes, queues */
    struct json_list images;  /* struct wire_build_image */
    struct json_list imports; /* struct wire_import, of tasks */
    struct wire_object bundle;
};
struct wire_drained {
    int64_t epoch;
};
struct wire_empty {
    char unused;
};

extern const struct json_field wire_register_fields[], wire_registered_fields[],
    wire_session_fields[], wire_session_open_fields[], wire_bearer_fields[],
    wire_bearer_given_fields[], wire_activate_fields[], wire_capabilities_fields[],
    wire_state_fields[], wire_heartbeat_fields[], wire_heartbeat_answer_fields[],
    wire_poll_fields[], wire_poll_answer_fields[], wire_grant_fields[], wire_begin_fields[],
    wire_begun_fields[], wire_start_fields[], wire_renew_fields[], wire_lease_times_fields[],
    wire_reject_fields[], wire_release_fields[], wire_logs_fields[], wire_logs_answer_fields[],
    wire_events_fields[], wire_finalize_fields[], wire_finalize_answer_fields[],
    wire_complete_fields[], wire_completed_fields[], wire_build_complete_fields[],
    wire_drained_fields[], wire_empty_fields[], wire_import_fields[], wire_failure_fields[],
    wire_secrets_wanted_fields[], wire_secrets_fields[], wire_step_wanted_fields[],
    wire_step_found_fields[], wire_step_done_fields[], wire_images_held_fields[],
    wire_images_gone_fields[], wire_ops_fields[], wire_op_results_fields[],
    wire_checkpoint_begin_fields[], wire_checkpoint_begun_fields[], wire_checkpoint_stage_fields[],
    wire_checkpoint_ready_fields[], wire_checkpoint_abort_fields[],
    wire_checkpoint_aborted_fields[], wire_resumed_fields[], wire_message_body_fields[];
