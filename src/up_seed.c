#include "up_seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "base/process.h"

enum { REQUEST_MS = 30 * 1000, DEPLOY_MS = 30 * 60 * 1000, TEXT_MAX = 64 * 1024, ENV_MAX = 1024 };

#define DONE_ID "seed-done"

struct seed {
    struct http_client *client;
    const char *url, *directory;
    const volatile bool *is_over;
    struct arena *arena;
};

/* In the answer's place of `answer`, when it is wanted. */
static bool ask(struct seed *seed, const char *method, const char *path, const char *body,
                int *status, struct str *answer, struct error *err)
{
    struct http_answer got = {.body = {.max = MIB(4)}};
    const struct http_request request = {
        .method = method,
        .path = path,
        .body = str_of(body),
        .timeout_ms = REQUEST_MS,
        .abort = seed->is_over,
    };

    bool ok = http_client_send(seed->client, &request, &got, err);
    *status = got.status;
    if (ok && answer)
        *answer = arena_str(seed->arena, buf_str(&got.body));
    buf_finish(&got.body);
    return ok;
}

static bool post(struct seed *seed, const char *path, const char *body, struct str *answer,
                 struct error *err)
{
    struct str got = {0}, why = {0};
    int status;

    if (!ask(seed, "POST", path, body, &status, &got, err))
        return false;
    if (answer)
        *answer = got;
    if (status >= 200 && status < 300)
        return true;
    json_find_text(got, "error", seed->arena, &why);
    return error_set(err, ERR_INTERNAL, "%s: %d %.*s", path, status, (int)why.len, why.ptr);
}

/* --- the project --- */

static bool write_file(struct seed *seed, const char *name, struct str text, struct error *err)
{
    return file_publish(arena_printf(seed->arena, "%s/%s", seed->directory, name), text, 0644, err);
}

static bool make_directories(struct seed *seed, struct error *err)
{
    static const char *const names[] = {"", "/tour", "/tour/tasks", "/broken", "/broken/tasks"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!directory_make(arena_printf(seed->arena, "%s%s", seed->directory, names[i]), 0700,
                            err))
            return false;
    return true;
}

static bool write_projects(struct seed *seed, struct error *err)
{
    static const char config[] = "import { defineConfig } from \"@helmr/sdk\";\n\n"
                                 "export default defineConfig({\n  project: \"tour\",\n"
                                 "  dirs: [\"./tasks\"],\n});\n";
    static const char package[] =
        "{\n  \"name\": \"tour\",\n  \"private\": true,\n  \"type\": \"module\"\n}\n";

    return make_directories(seed, err) &&
           write_file(seed, "tour/helmr.config.ts", str_of(config), err) &&
           write_file(seed, "tour/package.json", str_of(package), err) &&
           write_file(seed, "tour/tasks/tour.ts", tour_source(), err) &&
           write_file(seed, "broken/helmr.config.ts", str_of(config), err) &&
           write_file(seed, "broken/package.json", str_of(package), err) &&
           write_file(seed, "broken/tasks/broken.ts",
                      STR("throw new Error(\"the tour's example of a failed build\");\n"), err);
}

/* This process's variables, but for those that say who and where. */
static const char *const *deploy_env(struct seed *seed, struct str key)
{
    extern char **environ;
    const char **env = arena_array(seed->arena, ENV_MAX, sizeof *env);
    size_t n = 0;

    env[n++] = arena_printf(seed->arena, "HELMR_API_KEY=%.*s", (int)key.len, key.ptr);
    env[n++] = arena_printf(seed->arena, "HELMR_API_URL=%s", seed->url);
    for (char **own = environ; *own && n < ENV_MAX - 1; own++)
        if (strncmp(*own, "HELMR_API_", 10) != 0)
            env[n++] = *own;
    return env;
}

static bool deploy(struct seed *seed, const char *project, struct str key, bool must_fail,
                   struct error *err)
{
    const char *path = arena_printf(seed->arena, "%s/%s", seed->directory, project);
    const char *const argv[] = {"/proc/self/exe", "deploy", path, NULL};
    const struct process_spec spec = {.argv = argv, .env = deploy_env(seed, key)};
    AUTO(buf_finish) struct buf out = {.max = TEXT_MAX}, errors = {.max = TEXT_MAX};
    int status = 0;

    if (!process_run(&spec, (struct str){0}, DEPLOY_MS, &out, &errors, &status, err))
        return error_wrap(err, "helmr deploy %s", project);
    if ((status == 0) != must_fail)
        return true;
    if (must_fail)
        return error_set(err, ERR_INTERNAL, "the broken example was deployed");
    size_t from = errors.len > 160 ? errors.len - 160 : 0;
    return error_set(err, ERR_INTERNAL, "helmr deploy %s: %.*s", project, (int)(errors.len - from),
                     errors.bytes + from);
}

static bool deploy_both(struct seed *seed, struct error *err)
{
    static const char wanted[] = "{\"name\":\"seed\",\"expires_in_days\":30,"
                                 "\"permissions\":[{\"scopes\":[\"tasks:deploy\",\"runs:read\"]}]}";
    struct str made, key, id;
    struct error why;
    int status;

    if (!post(seed, "/api/api-keys", wanted, &made, err))
        return false;
    if (!json_find_text(made, "raw_key", seed->arena, &key) ||
        !json_find_text(made, "id", seed->arena, &id))
        return error_set(err, ERR_INTERNAL, "the key for the examples was not shown");
    bool ok = deploy(seed, "tour", key, false, err) && deploy(seed, "broken", key, true, err);
    const char *path = arena_printf(seed->arena, "/api/api-keys/%.*s", (int)id.len, id.ptr);
    if (!ask(seed, "DELETE", path, "", &status, NULL, &why))
        log_warn("the key of the examples is left", LOG_ERR(&why));
    return ok;
}

/* --- what is run --- */

/* One run each. The narrow queue has place for one, so those behind it stay queued. */
static const struct example {
    const char *name, *task, *payload, *options;
    bool is_cancelled;
} examples[] = {
    {"succeeded", "tour-greets", "{\"name\":\"Ada\"}", ""},
    {"refused", "tour-greets", "{\"name\":7}", ""},
    {"failed", "tour-fails", "null", ""},
    {"timeout", "tour-dawdles", "null", ""},
    {"memory", "tour-devours", "null", ""},
    {"parked", "tour-asks", "{}", ",\"tags\":[\"tour\"]"},
    {"too-late", "tour-asks", "{\"timeout\":\"1s\"}", ""},
    {"running", "tour-works", "null", ",\"priority\":600"},
    {"queued", "tour-works", "null", ""},
    {"cancelled", "tour-works", "null", "", true},
    {"expired", "tour-works", "null", ",\"ttl\":\"1s\""},
};

static bool start(struct seed *seed, const struct example *example, struct error *err)
{
    const char *body =
        arena_printf(seed->arena,
                     "{\"task_id\":\"%s\",\"payload\":%s,\"options\":{"
                     "\"idempotency_key\":\"seed-%s\"%s}}",
                     example->task, example->payload, example->name, example->options);
    struct str made, id;

    if (!post(seed, "/api/runs", body, &made, err))
        return error_wrap(err, "the %s example", example->name);
    if (!example->is_cancelled || !json_find_text(made, "id", seed->arena, &id))
        return true;
    const char *path = arena_printf(seed->arena, "/api/runs/%.*s/cancel", (int)id.len, id.ptr);
    return post(seed, path, "{\"reason\":\"an example\"}", NULL, err);
}

static bool talk(struct seed *seed, struct error *err)
{
    static const char start_body[] =
        "{\"task_id\":\"tour-talks\",\"external_id\":\"seed-talk\",\"tags\":[\"tour\"]}";
    static const char say_body[] =
        "{\"data\":{\"text\":\"Hello\"},\"idempotency_key\":\"seed-hello\"}";

    return post(seed, "/api/sessions", start_body, NULL, err) &&
           post(seed, "/api/sessions/by-external-id/inputs/questions?external_id=seed-talk",
                say_body, NULL, err);
}

static bool make_tokens(struct seed *seed, struct error *err)
{
    struct str made, id;

    if (!post(seed, "/api/tokens",
              "{\"idempotency_key\":\"seed-open\",\"timeout\":\"30d\",\"metadata\":"
              "{\"prompt\":\"A question nobody waits for\"}}",
              NULL, err) ||
        !post(seed, "/api/tokens", "{\"idempotency_key\":\"seed-answered\"}", &made, err))
        return false;
    if (!json_find_text(made, "id", seed->arena, &id))
        return error_set(err, ERR_INTERNAL, "the example of a token has no id");
    const char *path = arena_printf(seed->arena, "/api/tokens/%.*s/complete", (int)id.len, id.ptr);
    return post(seed, path, "{\"data\":{\"approved\":true}}", NULL, err);
}

static bool plant(struct seed *seed, struct error *err)
{
    static const char schedule[] = "{\"task\":\"tour-greets\",\"cron\":\"0 9 * * 1-5\","
                                   "\"deduplication_key\":\"seed\"}";
    static const char done[] = "{\"task_id\":\"tour-greets\",\"external_id\":\"" DONE_ID "\","
                               "\"payload\":{\"name\":\"everybody\"}}";

    for (size_t i = 0; i < COUNT_OF(examples); i++)
        if (!start(seed, &examples[i], err))
            return false;
    return talk(seed, err) && post(seed, "/api/schedules", schedule, NULL, err) &&
           make_tokens(seed, err) && post(seed, "/api/sessions", done, NULL, err);
}

bool seed_examples(struct http_client *client, const char *url, const char *directory,
                   const volatile bool *is_over, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct seed seed = {
        .client = client,
        .url = url,
        .directory = directory,
        .is_over = is_over,
        .arena = &arena,
    };
    int status;

    if (!ask(&seed, "GET", "/api/sessions/by-external-id?external_id=" DONE_ID, "", &status, NULL,
             err))
        return false;
    return status == 200 ||
           (write_projects(&seed, err) && deploy_both(&seed, err) && plant(&seed, err));
}
