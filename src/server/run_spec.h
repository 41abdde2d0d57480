/* What a start asks for, read and checked before the database is touched. */
#pragma once

#include "base/json.h"
#include "http/call.h"
#include "server/idempotency.h"

enum {
    RUN_BODY_MAX = 32 * 1024 * 1024,
    RUN_SECRETS_MAX = 64,
    RUN_DURATION_MIN = 5, /* seconds */
    RUN_DURATION_MAX = 86400,
};

struct queue_choice {
    struct str name;
};

struct run_options {
    struct str deployment_id;
    struct queue_choice queue;
    struct str concurrency_key;
    int64_t priority;
    struct str ttl; /* raw */
    int64_t max_duration_seconds;
    bool has_max_duration;
    struct str retry, metadata; /* raw */
    struct json_list tags;
    struct str idempotency_key, idempotency_key_ttl;
    struct key_origin idempotency_key_options;
};

struct run_spec {
    struct str task_id;
    struct str payload; /* canonical JSON; {} when none was given */
    bool has_payload;
    struct json_map secrets;
    struct run_options options;

    /* made from the above */
    int64_t ttl_ms;                          /* 0: the task's */
    int64_t idempotency_ttl_ms;              /* how long the key is remembered */
    struct str retry_policy;                 /* canonical JSON; ptr NULL: the task's */
    struct str metadata, tags, secrets_text; /* canonical JSON */
    struct str sdk_version, cli_version;     /* ptr NULL: not told */
};

/* From the text of a request: {task_id, payload?, secrets?, options?}. */
bool run_spec_parse(struct str text, struct arena *arena, struct run_spec *spec,
                    struct error *err) MUST_USE;

/* The same from a call, with the versions that its headers tell. */
bool run_spec_read(struct call *call, struct run_spec *spec, struct error *err) MUST_USE;

/* What run_spec_parse makes of a request whose fields were read by another table. */
bool run_spec_complete(struct run_spec *spec, struct arena *arena, struct error *err) MUST_USE;

/* The versions that the headers of a call tell. */
void run_spec_read_versions(const struct call *call, struct run_spec *spec);

/* What is asked of every run of a session, as text for run_spec_parse: all but payload, metadata,
 * deployment and idempotency key. */
bool run_spec_write(const struct run_spec *spec, struct buf *out, struct error *err) MUST_USE;

extern const struct json_field run_queue_fields[];

/* Equal for starts that ask for the same thing. */
void run_spec_fingerprint(const struct run_spec *spec, uint8_t fingerprint[32]);
