#include "server/run_spec.h"

#include <stdio.h>

#include "base/hash.h"
#include "model/name.h"
#include "model/queue_score.h"
#include "server/input.h"

enum {
    PAYLOAD_MAX = 16 * 1024 * 1024,
    METADATA_MAX = 256 * 1024,
    METADATA_KEY_MAX = 512,
    SECRETS_TEXT_MAX = 128 * 1024,
};

const struct json_field run_queue_fields[] = {
    {"name", JSON_TEXT, offsetof(struct queue_choice, name), REQUIRED, .max = 256},
    {0},
};

static const struct json_field option_fields[] = {
    {"deployment_id", JSON_TEXT, offsetof(struct run_options, deployment_id), OPTIONAL, .max = 64},
    {"queue", JSON_OBJ, offsetof(struct run_options, queue), OPTIONAL, .fields = run_queue_fields},
    {"concurrency_key", JSON_TEXT, offsetof(struct run_options, concurrency_key), OPTIONAL,
     .max = 512},
    {"priority", JSON_INTEGER, offsetof(struct run_options, priority), OPTIONAL,
     .min = -PRIORITY_MAX, .max = PRIORITY_MAX},
    {"ttl", JSON_RAW, offsetof(struct run_options, ttl), OPTIONAL, .max = 256},
    {"max_duration_seconds", JSON_INTEGER, offsetof(struct run_options, max_duration_seconds),
     OPTIONAL, .min = RUN_DURATION_MIN, .max = RUN_DURATION_MAX,
     .present = offsetof(struct run_options, has_max_duration)},
    {"retry", JSON_RAW, offsetof(struct run_options, retry), OPTIONAL, .max = 4096},
    {"metadata", JSON_RAW, offsetof(struct run_options, metadata), OPTIONAL, .max = METADATA_MAX},
    {"tags", JSON_LIST, offsetof(struct run_options, tags), OPTIONAL, .max = 32},
    {"idempotency_key", JSON_TEXT, offsetof(struct run_options, idempotency_key), OPTIONAL,
     .max = 512},
    {"idempotency_key_ttl", JSON_RAW, offsetof(struct run_options, idempotency_key_ttl), OPTIONAL,
     .max = 256},
    {"idempotency_key_options", JSON_OBJ, offsetof(struct run_options, idempotency_key_options),
     OPTIONAL, .fields = key_origin_fields},
    {0},
};

static const struct json_field spec_fields[] = {
    {"task_id", JSON_TEXT, offsetof(struct run_spec, task_id), REQUIRED, .max = 128},
    {"payload", JSON_RAW, offsetof(struct run_spec, payload), OPTIONAL, .max = RUN_BODY_MAX,
     .present = offsetof(struct run_spec, has_payload)},
    {"secrets", JSON_MAP, offsetof(struct run_spec, secrets), OPTIONAL, .max = RUN_SECRETS_MAX},
    {"options", JSON_OBJ, offsetof(struct run_spec, options), OPTIONAL, .fields = option_fields},
    {0},
};

static bool is_given(struct str raw)
{
    return raw.ptr && !str_equal(raw, STR("null"));
}

static bool read_payload(struct run_spec *spec, struct arena *arena, struct error *err)
{
    if (!spec->has_payload) {
        spec->payload = STR("{}");
        return true;
    }
    if (spec->payload.len > PAYLOAD_MAX)
        return error_set(err, ERR_TOO_LARGE, "/payload is over %d bytes", PAYLOAD_MAX);
    AUTO(buf_finish) struct buf out = {.max = PAYLOAD_MAX};
    if (!json_canonical(spec->payload, PAYLOAD_MAX, &out, err))
        return false;
    spec->payload = arena_str(arena, buf_str(&out));
    return true;
}

static bool starts_with(struct str text, struct str prefix)
{
    return text.len >= prefix.len && memcmp(text.ptr, prefix.ptr, prefix.len) == 0;
}

static bool read_secrets(struct run_spec *spec, struct arena *arena, struct error *err)
{
    static const struct str vault = STR("vault:");
    AUTO(buf_finish) struct buf all = {.max = SECRETS_TEXT_MAX};
    struct json_writer json = json_begin(&all);
    json_open(&json, NULL);
    for (size_t i = 0; i < spec->secrets.n; i++) {
        const struct json_pair *pair = &spec->secrets.pairs[i];
        if (!name_check(NAME_SECRET, "/secrets: a name", pair->name, err))
            return false;
        if (!starts_with(pair->value, vault))
            return error_set(err, ERR_SECRET_SOURCE,
                             "/secrets: the only source of a secret is vault:NAME");
        struct str stored = {pair->value.ptr + vault.len, pair->value.len - vault.len};
        if (!name_check(NAME_SECRET, "/secrets: a stored name", stored, err))
            return false;
        json_text(&json, arena_text(arena, pair->name), pair->value);
    }
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    spec->secrets_text = arena_str(arena, buf_str(&all));
    return true;
}

static bool read_keys(struct run_spec *spec, struct error *err)
{
    const struct run_options *options = &spec->options;
    if (options->concurrency_key.ptr &&
        !name_check(NAME_EXTERNAL, "concurrency_key", options->concurrency_key, err))
        return false;
    if (options->idempotency_key.ptr &&
        !name_check(NAME_EXTERNAL, "idempotency_key", options->idempotency_key, err))
        return false;
    spec->idempotency_ttl_ms = 30 * DAY_MS;
    return input_key_ttl(options->idempotency_key_ttl, &spec->idempotency_ttl_ms, err);
}

static bool read_terms(struct run_spec *spec, struct arena *arena, struct error *err)
{
    const struct run_options *options = &spec->options;
    if (options->queue.name.ptr && !name_check(NAME_QUEUE, "/queue/name", options->queue.name, err))
        return false;
    if (is_given(options->ttl) &&
        !input_duration(options->ttl, "ttl", 365 * DAY_MS, &spec->ttl_ms, err))
        return false;
    if (is_given(options->retry) && !input_retry(options->retry, arena, &spec->retry_policy, err))
        return false;
    spec->metadata = STR("{}");
    if (is_given(options->metadata) &&
        !input_object(options->metadata, "metadata", METADATA_MAX, arena, &spec->metadata, err))
        return false;
    return input_tags(options->tags.items, options->tags.n, arena, &spec->tags, err);
}

bool run_spec_complete(struct run_spec *spec, struct arena *arena, struct error *err)
{
    return name_check(NAME_ID, "/task_id", spec->task_id, err) && read_payload(spec, arena, err) &&
           read_secrets(spec, arena, err) && read_keys(spec, err) && read_terms(spec, arena, err);
}

bool run_spec_parse(struct str text, struct arena *arena, struct run_spec *spec, struct error *err)
{
    return json_read(text, spec_fields, spec, sizeof *spec, arena, err) &&
           run_spec_complete(spec, arena, err);
}

void run_spec_read_versions(const struct call *call, struct run_spec *spec)
{
    spec->sdk_version = input_version(call_header(call, STR("helmr-sdk-version")));
    spec->cli_version = input_version(call_header(call, STR("helmr-cli-version")));
}

bool run_spec_read(struct call *call, struct run_spec *spec, struct error *err)
{
    if (!run_spec_parse(call->request->body, call->arena, spec, err))
        return false;
    run_spec_read_versions(call, spec);
    return true;
}

static void write_options(const struct run_spec *spec, struct json_writer *json)
{
    const struct run_options *options = &spec->options;
    char ttl[32];

    if (options->queue.name.ptr) {
        json_open(json, "queue");
        json_text(json, "name", options->queue.name);
        json_close(json);
    }
    if (options->concurrency_key.ptr)
        json_text(json, "concurrency_key", options->concurrency_key);
    if (options->priority)
        json_int(json, "priority", options->priority);
    if (spec->ttl_ms) {
        snprintf(ttl, sizeof ttl, "%lldms", (long long)spec->ttl_ms);
        json_string(json, "ttl", ttl);
    }
    if (options->has_max_duration)
        json_int(json, "max_duration_seconds", options->max_duration_seconds);
    if (spec->retry_policy.ptr)
        json_raw(json, "retry",
                 spec->retry_policy.len ? spec->retry_policy : STR("{\"enabled\":false}"));
    json_raw(json, "tags", spec->tags);
}

bool run_spec_write(const struct run_spec *spec, struct buf *out, struct error *err)
{
    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    json_text(&json, "task_id", spec->task_id);
    json_raw(&json, "secrets", spec->secrets_text);
    json_open(&json, "options");
    write_options(spec, &json);
    json_close(&json);
    json_close(&json);
    return json_end(&json, err);
}

void run_spec_fingerprint(const struct run_spec *spec, uint8_t fingerprint[BLAKE2B_LEN])
{
    const struct run_options *options = &spec->options;
    const int64_t numbers[] = {options->priority, spec->ttl_ms,
                               options->has_max_duration ? options->max_duration_seconds : 0};
    const struct str pieces[] = {
        spec->task_id,
        spec->payload,
        spec->secrets_text,
        options->deployment_id,
        options->queue.name,
        options->concurrency_key,
        {(const char *)numbers, sizeof numbers},
        spec->retry_policy,
        spec->metadata,
        spec->tags,
    };
    blake2b_list((struct str){0}, pieces, COUNT_OF(pieces), fingerprint);
}
