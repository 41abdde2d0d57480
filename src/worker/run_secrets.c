#include "worker/run_secrets.h"

#include <stdlib.h>

#include "base/own.h"
#include "worker/worker.h"

enum {
    CALL_TIMEOUT_MS = 15 * 1000,
    FILE_MODE = 0600,
    DIRECTORY_MODE = 0700,
    VARIABLES_MAX = 1024 * 1024, /* of all: more could not be passed on to any child */
    DETAILS_MAX = 256 * 1024,
    ERROR_TEXT_MAX = 64 * 1024,
};

void run_secrets_finish(struct run_secrets *secrets)
{
    for (size_t i = 0; i < secrets->n; i++)
        secret_finish(&secrets->values[i]);
    arena_finish(&secrets->arena);
    *secrets = (struct run_secrets){0};
}

static const struct {
    const char *name;
    enum secret_placement placement;
    uint32_t mode;
} placements[] = {
    {"env",  SECRET_IN_ENVIRONMENT, 0             },
    {"file", SECRET_IN_FILE,        FILE_MODE     },
    {"dir",  SECRET_IN_DIRECTORY,   DIRECTORY_MODE},
};

static bool describe(const struct wire_secret *told, const char *mount, struct arena *arena,
                     struct guest_secret *secret, struct error *err)
{
    bool is_relative = told->target.len > 0 && told->target.ptr[0] != '/';

    for (size_t i = 0; i < COUNT_OF(placements); i++) {
        if (!str_equal(told->placement, str_of(placements[i].name)))
            continue;
        secret->placement = placements[i].placement;
        secret->mode = placements[i].mode;
    }
    if (!secret->placement)
        return error_set(err, ERR_UNSUPPORTED, "the secret %.*s has an unknown place",
                         (int)told->name.len, told->name.ptr);
    secret->target = arena_text(arena, told->target);
    if (secret->placement != SECRET_IN_ENVIRONMENT && is_relative)
        secret->target = arena_printf(arena, "%s/%s", mount, secret->target);
    if (told->mode.len > 0)
        secret->mode = (uint32_t)strtoul(arena_text(arena, told->mode), NULL, 8);
    secret->name = arena_text(arena, told->name);
    secret->owner = told->owner.len ? arena_text(arena, told->owner) : NULL;
    return true;
}

/* Moves the values out of the answer, also when it cannot be used: they are wiped there. */
static bool keep(struct run_secrets *secrets, const struct json_list *answer, const char *mount,
                 struct error *err)
{
    const struct wire_secret *told = answer->items;
    struct arena *arena = &secrets->arena;
    size_t n = answer->n, variables = 0;
    bool fine = true;

    secrets->values = arena_array(arena, n + 1, sizeof *secrets->values);
    secrets->list = arena_array(arena, n + 1, sizeof *secrets->list);
    secrets->n = n;
    for (size_t i = 0; i < n; i++) {
        secrets->values[i] = secret_create(told[i].value);
        secrets->list[i].value = &secrets->values[i];
        bytes_wipe((void *)(uintptr_t)told[i].value.ptr, told[i].value.len);
        fine = fine && describe(&told[i], mount, arena, &secrets->list[i], err);
        if (secrets->list[i].placement == SECRET_IN_ENVIRONMENT)
            variables += told[i].value.len;
    }
    if (fine && variables > VARIABLES_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "the secrets in variables have %zu bytes together, allowed are %d",
                         variables, VARIABLES_MAX);
    return fine;
}

static const char *mount_of(const struct lease *lease, struct arena *arena)
{
    return arena_text(arena, lease->grant.run.sandbox.mount_path);
}

void run_secrets_keep(struct run_secrets *secrets, const struct lease *lease,
                      const struct json_list *came)
{
    if (came->n == 0)
        return;
    secrets->has_come = true;
    if (!keep(secrets, came, mount_of(lease, &secrets->arena), &secrets->problem))
        secrets->is_unfit = true;
}

static bool fetch(struct run_secrets *secrets, struct lease *lease, struct line *line,
                  struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct wire_secrets_wanted wanted = {
        .fence = {lease->worker->link.epoch, lease->sequence, str_of(lease->id)}
    };
    struct wire_secrets answer = {0};
    const struct exchange exchange = {
        .route = arena_printf(&arena, "leases/%s/secrets", lease->id),
        .request_fields = wire_secrets_wanted_fields,
        .request = &wanted,
        ANSWER(wire_secrets_fields, answer),
        .timeout_ms = CALL_TIMEOUT_MS,
        .is_secret = true,
    };

    return line_insist(line, &exchange, lease_look(lease).fence_ms, &arena, err) &&
           keep(secrets, &answer.secrets, mount_of(lease, &secrets->arena), err);
}

/* What the server refuses it will refuse again; what kept it from answering may pass. */
static bool unavailable(struct failure *failure, const struct error *err)
{
    bool may_pass = err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT ||
                    err->code == ERR_UNAUTHENTICATED || err->code == ERR_CANCELLED;
    const char *names = strstr(err->text, "not stored here");

    return failure_set(failure, "guest_runtime", "secret_unavailable", "secrets", may_pass,
                       "the task's secrets: %s", names ? names : err->text);
}

static struct redactor *redactor_of(struct run_secrets *secrets)
{
    const struct secret **values = arena_array(&secrets->arena, secrets->n + 1, sizeof *values);

    for (size_t i = 0; i < secrets->n; i++)
        values[i] = &secrets->values[i];
    return redactor_create(values, secrets->n);
}

/* Those that came with the begin, or else those asked for now. */
static bool get(struct run_secrets *secrets, struct lease *lease, struct line *line,
                struct error *err)
{
    if (!secrets->has_come)
        return fetch(secrets, lease, line, err);
    *err = secrets->problem;
    return !secrets->is_unfit;
}

bool run_secrets_send(struct run_secrets *secrets, struct lease *lease, struct line *line,
                      struct guest *guest, struct failure *failure, struct redactor **redactor,
                      struct error *err)
{
    struct str names = lease->grant.run.secret_names;

    *redactor = NULL;
    if (!names.ptr || str_equal(names, STR("[]")))
        return true;
    if (!get(secrets, lease, line, err))
        return unavailable(failure, err);
    *redactor = redactor_of(secrets);
    bool is_sent = guest_send_secrets(guest, secrets->list, secrets->n, err);
    run_secrets_finish(secrets);
    return is_sent;
}

static struct str hide(const struct redactor *redactor, struct str text, struct arena *arena)
{
    struct buf clean = {.max = ERROR_TEXT_MAX};
    struct error err;

    if (text.len == 0)
        return text;
    /* Marks may be longer than what they cover: then the text is cut. */
    (void)!redact_text(redactor, text, &clean, &err);
    struct str kept = arena_str(arena, buf_str(&clean));
    buf_finish(&clean);
    return kept;
}

void run_secrets_hide(const struct redactor *redactor, struct guest_result *result,
                      struct arena *arena)
{
    struct str *texts[] = {&result->error_name,   &result->error_message, &result->error_stack,
                           &result->load_message, &result->load_file,     &result->load_stack};
    struct buf details = {.max = DETAILS_MAX};
    struct error err = {0};

    if (!redactor)
        return;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        *texts[i] = hide(redactor, *texts[i], arena);
    if (result->error_details.len > 0)
        result->error_details = redact_json(redactor, result->error_details, &details, &err)
                                    ? arena_str(arena, buf_str(&details))
                                    : (struct str){0};
    buf_finish(&details);
}
