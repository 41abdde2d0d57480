/* Values that several routes take in the same form. */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "model/retry.h"

/* A duration in any of its JSON forms, more than 0 and at most max_ms; `name` is for the
 * message. */
bool input_duration(struct str raw, const char *name, int64_t max_ms, int64_t *ms,
                    struct error *err) MUST_USE;

/* idempotency_key_ttl: how long a key lasts; *ms stays when it is absent. */
bool input_key_ttl(struct str raw, int64_t *ms, struct error *err) MUST_USE;

/* A JSON object of at most max bytes, canonical. */
bool input_object(struct str raw, const char *name, size_t max, struct arena *arena,
                  struct str *object, struct error *err) MUST_USE;

/* A list of texts as canonical JSON: at most 32, each of 1 to 128 bytes. */
bool input_tags(const struct str *tags, size_t n, struct arena *arena, struct str *text,
                struct error *err) MUST_USE;

/* {enabled?, max_attempts?, backoff?{min_ms?, max_ms?, factor?, jitter?}} with every default
 * filled in; a policy that is off is an empty str. */
bool input_retry(struct str raw, struct arena *arena, struct str *policy,
                 struct error *err) MUST_USE;

/* The policy of that text, as it is kept with a run or a task; empty: one attempt. */
bool retry_policy_read(struct str text, struct arena *arena, struct retry_policy *policy,
                       struct error *err) MUST_USE;

/* Helmr-SDK-Version and the like: printable, at most 64 bytes; anything else is absent. */
struct str input_version(struct str header);

#define DAY_MS INT64_C(86400000)
