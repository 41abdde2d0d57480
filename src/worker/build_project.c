/* The project itself: unpacked, its dependencies installed, its modules evaluated. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "worker/build.h"

#define SOURCE_BYTES_MAX (INT64_C(512) * 1024 * 1024)

enum {
    SOURCE_ENTRIES_MAX = 100000,
    PACKAGE_MAX = 1024 * 1024,
    INSTALL_LIMIT_MS = 30 * 60 * 1000,
    INSTALL_MEMORY_MIB = 8192,
    EVALUATE_LIMIT_MS = 10 * 60 * 1000,
    PLACE_MAX = 16 * 1024,
};

bool build_unpack(struct build *build, struct error *err)
{
    const struct wire_object *source = &build->grant->source;
    AUTO_FD int fd = open(build->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0)
        return error_errno(err, "temporary file in %s", build->folder);
    if (!line_fetch(&build->line, arena_text(&build->arena, source->digest), source->size, fd, err))
        return false;
    if (lseek(fd, 0, SEEK_SET) != 0)
        return error_errno(err, "rewind the archive");
    if (!directory_make(build->source, 0755, err))
        return false;
    if (!archive_unpack(fd, build->source, SOURCE_BYTES_MAX, SOURCE_ENTRIES_MAX, err))
        return build_fault(build, "config_invalid", err);
    return true;
}

static bool has_file(const struct build *build, const char *name)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct stat info;

    return lstat(arena_printf(&arena, "%s/%s", build->source, name), &info) == 0 &&
           S_ISREG(info.st_mode);
}

/* Copies one of the few files an installer needs; absent ones are skipped. */
static bool copy_small(const char *from, const char *to, struct error *err)
{
    AUTO_FREE char *text = NULL;

    if (!file_read(from, (size_t)64 * PACKAGE_MAX, &text, err))
        return err->code == ERR_NOT_FOUND;
    return file_publish(to, str_of(text), 0644, err);
}

static bool copy_package_files(struct build *build, const char *folder, struct error *err)
{
    static const char *const names[] = {"package.json", "package-lock.json", "npm-shrinkwrap.json",
                                        "bun.lock",     "bun.lockb",         "bunfig.toml",
                                        ".npmrc"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!copy_small(arena_printf(&build->arena, "%s/%s", build->source, names[i]),
                        arena_printf(&build->arena, "%s/%s", folder, names[i]), err))
            return false;
    return true;
}

/* The whole install as one shell line, by the project's package manager. */
static const char *install_line(struct build *build, struct str package)
{
    struct str manager = {0}, name, version = {0};
    bool uses_bun = has_file(build, "bun.lock") || has_file(build, "bun.lockb");

    if (json_find_text(package, "packageManager", &build->arena, &manager)) {
        version = manager;
        if (str_split(&version, '@', &name))
            uses_bun = str_equal(name, STR("bun"));
    }
    if (uses_bun)
        return arena_printf(&build->arena,
                            "npm install -g --no-audit --no-fund 'bun@%.*s' && bun install %s",
                            (int)(version.ptr ? version.len : 6),
                            version.ptr ? version.ptr : "latest",
                            has_file(build, "bun.lock") ? "--frozen-lockfile" : "");
    if (has_file(build, "package-lock.json") || has_file(build, "npm-shrinkwrap.json"))
        return "npm ci --omit=dev --no-audit --no-fund";
    return "npm install --omit=dev --no-audit --no-fund";
}

/* Whether anything but the SDK, which every guest has, must be installed. */
static bool needs_install(struct str package)
{
    size_t n = json_count(package, "dependencies") + json_count(package, "optionalDependencies");
    AUTO(arena_finish) struct arena arena = {0};
    struct str ignored;

    return n > (json_find_raw(package, "dependencies.@helmr/sdk", &arena, &ignored) ? 1U : 0U);
}

static bool install_failed(struct build *build, const struct guest_result *result,
                           struct error *err)
{
    error_set(err, ERR_UNPROCESSABLE,
              "installing the dependencies of package.json failed with exit code %d",
              result->exit_code);
    return build_fault(build, "dependency_install_failed", err);
}

bool build_install(struct build *build, struct error *err)
{
    AUTO_FREE char *text = NULL;
    const char *deps = arena_printf(&build->arena, "%s/deps", build->bundle);
    const char *upper = arena_printf(&build->arena, "%s/install-upper", build->folder);
    struct guest_result result;

    if (!directory_make(deps, 0755, err) || !directory_make(upper, 0755, err))
        return false;
    if (!file_read(arena_printf(&build->arena, "%s/package.json", build->source), PACKAGE_MAX,
                   &text, err))
        return err->code == ERR_NOT_FOUND; /* evaluation says it better */
    if (!needs_install(str_of(text)))
        return true;
    if (!copy_package_files(build, deps, err))
        return false;

    const char *const argv[] = {"sh", "-ceu", install_line(build, str_of(text)), NULL};
    const struct sandbox_bind binds[] = {
        {deps, "/build/deps", true}
    };
    const struct build_program job = {
        .layout = LAYOUT_DIRECT,
        .layers = build->base_layers,
        .n_layers = build->base.n_layers,
        .upper = upper,
        .binds = binds,
        .n_binds = COUNT_OF(binds),
        .config = &build->base.config,
        .has_network = true,
        .memory_mib = INSTALL_MEMORY_MIB,
        .limit_ms = INSTALL_LIMIT_MS,
        .program = {.kind = PROGRAM_STEP, .argv = argv, .cwd = "/build/deps"},
    };
    if (!build_run(&build->part, &job, &result, err))
        return build->failure.kind ? false : build_fault(build, "dependency_install_failed", err);
    return result.exit_code == 0 && result.signal == 0 ? true : install_failed(build, &result, err);
}

static const char *const *env_list(struct build *build)
{
    const struct json_map *env = &build->grant->env;
    const char **list = arena_array(&build->arena, env->n + 1, sizeof *list);

    for (size_t i = 0; i < env->n; i++)
        list[i] = arena_printf(&build->arena, "%.*s=%.*s", (int)env->pairs[i].name.len,
                               env->pairs[i].name.ptr, (int)env->pairs[i].value.len,
                               env->pairs[i].value.ptr);
    return list;
}

/* The file's name is the guest's word, so it is quoted; one that is too long is left out. */
static struct str place_of(struct build *build, const struct guest_result *result)
{
    AUTO(buf_finish) struct buf text = {.max = PLACE_MAX};
    struct json_writer json = json_begin(&text);
    struct error ignored;

    json_open(&json, NULL);
    json_text(&json, "file", result->load_file);
    json_int(&json, "line", result->load_line);
    json_close(&json);
    if (!json_end(&json, &ignored))
        return (struct str){0};
    return arena_str(&build->arena, buf_str(&text));
}

/* The adapter says what is wrong with the project: kind, message, file and line. */
static bool project_fault(struct build *build, const struct guest_result *result, struct error *err)
{
    struct str text = result->has_load_failure ? result->load_message : result->error_message;
    const char *kind = "task_invalid";

    if (result->has_load_failure && result->load_kind.len > 0)
        kind = result->load_kind.ptr;
    if (text.len == 0)
        text = STR("evaluating the project ended without a result");
    failure_set(&build->failure, "deployment_build", kind, "evaluate", false, "%.*s", (int)text.len,
                text.ptr);
    if (result->has_load_failure && result->load_file.len)
        build->failure_details = place_of(build, result);
    return error_set(err, ERR_UNPROCESSABLE, "%.200s", text.ptr);
}

bool build_evaluate(struct build *build, struct error *err)
{
    static const char *const argv[] = {"node", "/opt/helmr/adapter/main.js", NULL};
    const char *upper = arena_printf(&build->arena, "%s/evaluate-upper", build->folder);
    const char *out = arena_printf(&build->arena, "%s/task", build->bundle);
    const struct sandbox_bind binds[] = {
        {build->source, "/build/source", false},
        {out,           "/build/task",   true },
    };
    const struct build_program job = {
        .layout = LAYOUT_DIRECT,
        .layers = build->base_layers,
        .n_layers = build->base.n_layers,
        .upper = upper,
        .binds = binds,
        .n_binds = COUNT_OF(binds),
        .config = &build->base.config,
        .bundle = build->bundle,
        .shows_platform = true,
        .has_network = true,
        .limit_ms = EVALUATE_LIMIT_MS,
        .mode = "index",
        .options = "{\"source\":\"/build/source\",\"output\":\"/build/task\"}",
        .program = {.kind = PROGRAM_CHECK,
                    .argv = argv,
                    .env = env_list(build),
                    .cwd = "/build/source"},
    };
    struct guest_result result;

    if (!directory_make(upper, 0755, err) || !directory_make(out, 0755, err))
        return false;
    if (!build_run(&build->part, &job, &result, err))
        return build->failure.kind ? false : build_fault(build, "task_invalid", err);
    if (!result.has_outcome || result.outcome != OUTCOME_SUCCEEDED || result.has_load_failure)
        return project_fault(build, &result, err);
    build->manifest = result.output;
    return true;
}
