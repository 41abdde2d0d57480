#include "server/input.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "model/duration.h"
#include "model/name.h"

enum {
    TAGS_MAX = 32,
    TAG_MAX = 128,
    TAGS_TEXT_MAX = 32 * 1024,
    RETRY_TEXT_MAX = 4096,
    ATTEMPTS_DEFAULT = 3,
    VERSION_MAX = 64
};

bool input_duration(struct str raw, const char *name, int64_t max_ms, int64_t *ms,
                    struct error *err)
{
    if (!duration_read(raw, ms, err))
        return error_wrap(err, "%s", name);
    if (*ms <= 0 || *ms > max_ms)
        return error_set(err, ERR_INVALID, "%s must be over 0 and at most %lld days", name,
                         (long long)(max_ms / DAY_MS));
    return true;
}

bool input_key_ttl(struct str raw, int64_t *ms, struct error *err)
{
    return !raw.ptr || str_equal(raw, STR("null")) ||
           input_duration(raw, "idempotency_key_ttl", 365 * DAY_MS, ms, err);
}

static bool canonical(struct str raw, size_t max, struct arena *arena, struct str *text,
                      struct error *err)
{
    AUTO(buf_finish) struct buf out = {.max = max};
    if (!json_canonical(raw, max, &out, err))
        return false;
    *text = arena_str(arena, buf_str(&out));
    return true;
}

bool input_object(struct str raw, const char *name, size_t max, struct arena *arena,
                  struct str *object, struct error *err)
{
    if (raw.len == 0 || raw.ptr[0] != '{')
        return error_set(err, ERR_INVALID, "%s must be an object", name);
    if (raw.len > max)
        return error_set(err, ERR_TOO_LARGE, "%s is over %zu bytes", name, max);
    return canonical(raw, max, arena, object, err);
}

bool input_tags(const struct str *tags, size_t n, struct arena *arena, struct str *text,
                struct error *err)
{
    AUTO(buf_finish) struct buf out = {.max = TAGS_TEXT_MAX};
    struct json_writer json = json_begin(&out);
    if (n > TAGS_MAX)
        return error_set(err, ERR_INVALID, "tags must be at most %d", TAGS_MAX);
    json_open_list(&json, NULL);
    for (size_t i = 0; i < n; i++) {
        if (!name_check(NAME_TAG, "a tag", tags[i], err))
            return false;
        json_text(&json, NULL, tags[i]);
    }
    json_close_list(&json);
    if (!json_end(&json, err))
        return false;
    *text = arena_str(arena, buf_str(&out));
    return true;
}

struct backoff_body {
    int64_t min_ms, max_ms;
    bool has_min, has_max;
    struct str factor; /* raw: may be a fraction */
    struct str jitter;
};

struct retry_body {
    bool enabled, has_enabled, has_max, has_backoff;
    int64_t max_attempts;
    struct backoff_body backoff;
};

static const struct json_field backoff_fields[] = {
    {"min_ms", JSON_INTEGER, offsetof(struct backoff_body, min_ms), OPTIONAL, .max = 365 * DAY_MS,
     .present = offsetof(struct backoff_body, has_min)},
    {"max_ms", JSON_INTEGER, offsetof(struct backoff_body, max_ms), OPTIONAL, .max = 365 * DAY_MS,
     .present = offsetof(struct backoff_body, has_max)},
    {"factor", JSON_RAW, offsetof(struct backoff_body, factor), OPTIONAL, .max = 64},
    {"jitter", JSON_TEXT, offsetof(struct backoff_body, jitter), OPTIONAL, .max = 8},
    {0},
};

static const struct json_field retry_fields[] = {
    {"enabled", JSON_BOOL, offsetof(struct retry_body, enabled), OPTIONAL,
     .present = offsetof(struct retry_body, has_enabled)},
    {"max_attempts", JSON_INTEGER, offsetof(struct retry_body, max_attempts), OPTIONAL, .min = 1,
     .max = 10, .present = offsetof(struct retry_body, has_max)},
    {"backoff", JSON_OBJ, offsetof(struct retry_body, backoff), OPTIONAL, .fields = backoff_fields,
     .present = offsetof(struct retry_body, has_backoff)},
    {0},
};

static bool read_factor(struct str raw, double *factor, struct error *err)
{
    char text[72], *end;
    snprintf(text, sizeof text, "%.*s", (int)raw.len, raw.ptr);
    *factor = strtod(text, &end);
    return *end == '\0' ||
           error_set(err, ERR_INVALID, "/retry/backoff/factor must be a number over 0");
}

static bool read_policy(const struct retry_body *body, struct retry_policy *policy,
                        struct error *err)
{
    const struct backoff_body *backoff = &body->backoff;
    *policy = retry_default();
    if (body->has_enabled && !body->enabled)
        return true;
    policy->max_attempts = body->has_max ? body->max_attempts : ATTEMPTS_DEFAULT;
    if (backoff->has_min)
        policy->min_ms = backoff->min_ms;
    if (backoff->has_max)
        policy->max_ms = backoff->max_ms;
    if (backoff->factor.ptr && !read_factor(backoff->factor, &policy->factor, err))
        return false;
    if (backoff->jitter.ptr && !retry_jitter_parse(backoff->jitter, &policy->jitter))
        return error_set(err, ERR_INVALID, "/retry/backoff/jitter must be none or full");
    return retry_check(policy, err);
}

bool retry_policy_read(struct str text, struct arena *arena, struct retry_policy *policy,
                       struct error *err)
{
    struct retry_body body;
    if (text.len == 0) {
        *policy = retry_default();
        return true;
    }
    if (!json_read(text, retry_fields, &body, sizeof body, arena, err))
        return error_wrap(err, "retry");
    return read_policy(&body, policy, err);
}

bool input_retry(struct str raw, struct arena *arena, struct str *text, struct error *err)
{
    struct retry_policy policy = retry_default();
    if (!retry_policy_read(raw, arena, &policy, err))
        return false;
    if (policy.max_attempts == 1) {
        *text = (struct str){"", 0};
        return true;
    }
    char factor[40];
    snprintf(factor, sizeof factor, "%.15g", policy.factor);
    AUTO(buf_finish) struct buf out = {.max = RETRY_TEXT_MAX};
    struct json_writer json = json_begin(&out);
    json_open(&json, NULL);
    json_open(&json, "backoff");
    json_raw(&json, "factor", str_of(factor));
    json_string(&json, "jitter", policy.jitter == RETRY_JITTER_FULL ? "full" : "none");
    json_int(&json, "max_ms", policy.max_ms);
    json_int(&json, "min_ms", policy.min_ms);
    json_close(&json);
    json_int(&json, "max_attempts", policy.max_attempts);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    *text = arena_str(arena, buf_str(&out));
    return true;
}

struct str input_version(struct str header)
{
    if (header.len == 0 || header.len > VERSION_MAX)
        return (struct str){0};
    for (size_t i = 0; i < header.len; i++)
        if (header.ptr[i] <= ' ' || header.ptr[i] > '~')
            return (struct str){0};
    return header;
}
