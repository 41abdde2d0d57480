#include "engine/probe_cache.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/own.h"
#include "engine/record.h"

enum { DIGEST_LEN = 2 * BLAKE2B_LEN, FILE_MAX = 65536 };

struct verdict {
    struct str build, guest, boot_id;
    bool saves, accelerated;
};

static const struct json_field verdict_fields[] = {
    {"build", JSON_TEXT, offsetof(struct verdict, build), REQUIRED, .max = DIGEST_LEN},
    {"guest", JSON_TEXT, offsetof(struct verdict, guest), REQUIRED, .max = PROBE_GUEST_MAX},
    {"boot_id", JSON_TEXT, offsetof(struct verdict, boot_id), REQUIRED, .max = ID_LEN},
    {"saves", JSON_BOOL, offsetof(struct verdict, saves), REQUIRED},
    {"accelerated", JSON_BOOL, offsetof(struct verdict, accelerated), REQUIRED},
    {0},
};

static void cache_path(struct engine_host *host, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/probe.json", host->work_dir);
}

static char *cache_read(struct engine_host *host)
{
    char path[PATH_MAX];
    char *text = NULL;
    struct error ignored;

    cache_path(host, path);
    return file_read(path, FILE_MAX, &text, &ignored) ? text : NULL;
}

bool probe_cache_find(struct engine_host *host, const struct engine *engine, const char *guest,
                      struct engine_result *result)
{
    AUTO_FREE char *text = cache_read(host);
    AUTO(arena_finish) struct arena arena = {0};
    struct str raw;
    struct verdict verdict;
    struct error ignored;

    if (!text || !json_find_raw(str_of(text), engine->name, &arena, &raw) ||
        !json_read(raw, verdict_fields, &verdict, sizeof(verdict), &arena, &ignored))
        return false;
    if (verdict.saves != (engine->save != NULL) ||
        !str_equal(verdict.build, str_of(result->build)) ||
        !str_equal(verdict.guest, str_of(guest)) ||
        !str_equal(verdict.boot_id, str_of(host_boot_id())))
        return false;
    result->usable = true;
    result->saves = verdict.saves;
    result->accelerated = verdict.accelerated;
    return true;
}

static void verdict_write(struct json_writer *json, const char *guest,
                          const struct engine_result *result)
{
    json_open(json, result->name);
    json_string(json, "build", result->build);
    json_string(json, "guest", guest);
    json_string(json, "boot_id", host_boot_id());
    json_bool(json, "saves", result->saves);
    json_bool(json, "accelerated", result->accelerated);
    json_close(json);
}

void probe_cache_keep(struct engine_host *host, const char *guest,
                      const struct engine_result *result)
{
    AUTO_FREE char *text = cache_read(host);
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf out = {.max = FILE_MAX};
    struct json_writer json = json_begin(&out);
    struct error ignored;
    char path[PATH_MAX];
    struct str raw;

    json_open(&json, NULL);
    for (size_t i = 0; i < n_engines; i++) {
        bool is_this = strcmp(engines[i]->name, result->name) == 0;

        if (is_this && result->usable)
            verdict_write(&json, guest, result);
        else if (!is_this && text && json_find_raw(str_of(text), engines[i]->name, &arena, &raw))
            json_raw(&json, engines[i]->name, raw);
    }
    json_close(&json);
    cache_path(host, path);
    if (json_end(&json, &ignored))
        (void)!file_publish(path, buf_str(&out), 0600, &ignored);
}
