/* `helmr init`: the three files of a project that can be deployed as it is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/package.h"

enum { PACKAGE_MAX = 1024 * 1024, COMPLETED_MAX = 2 * PACKAGE_MAX };

static const char config_text[] = "import { defineConfig } from \"@helmr/sdk\";\n"
                                  "\n"
                                  "export default defineConfig({\n"
                                  "  project: \"my-project\",\n"
                                  "  dirs: [\"./tasks\"],\n"
                                  "});\n";

static const char task_text[] =
    "import { image, sandbox, task } from \"@helmr/sdk\";\n"
    "\n"
    "const node = image(\"hello\").from(\"node:24-bookworm-slim\").workdir(\"/app\");\n"
    "\n"
    "export const hello = task({\n"
    "  id: \"hello\",\n"
    "  sandbox: sandbox(\"hello\").image(node).workspace(\"/app\"),\n"
    "  maxDuration: \"5m\",\n"
    "  run: async (payload: { name?: string }, ctx) => {\n"
    "    const greeting = `Hello, ${payload.name ?? \"world\"}!`;\n"
    "    console.log(`${greeting} I work in ${ctx.workspace.path}.`);\n"
    "    return { greeting };\n"
    "  },\n"
    "});\n";

/* What was done, in order, for the lines or the document at the end. */
struct made {
    struct arena arena;
    const char *directory;
    bool as_json;
    struct {
        const char *name, *verb;
    } files[3];
    size_t n;
};

static void note(struct made *made, const char *verb, const char *name)
{
    made->files[made->n].name = name;
    made->files[made->n++].verb = verb;
    if (!made->as_json)
        printf("%s %s\n", verb, name);
}

static void finish_made(struct made *made)
{
    arena_finish(&made->arena);
}

static void print_document(const struct made *made)
{
    printf("{\"files\":[");
    for (size_t i = 0; i < made->n; i++)
        printf("%s{\"path\":\"%s\",\"status\":\"%s\"}", i ? "," : "", made->files[i].name,
               made->files[i].verb);
    printf("]}\n");
}

static bool is_there(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0;
}

static bool check_free(struct arena *arena, const char *directory, struct error *err)
{
    static const char *const names[] = {
        "helmr.config.ts",  "helmr.config.mts", "helmr.config.js",
        "helmr.config.mjs", "tasks/hello.ts",
    };

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *path = arena_printf(arena, "%s/%s", directory, names[i]);

        if (is_there(path))
            return error_set(err, ERR_CONFLICT, "%s is there already: --force overwrites it", path);
    }
    return true;
}

static bool create(struct made *made, const char *name, struct str text, struct error *err)
{
    if (!file_publish(arena_printf(&made->arena, "%s/%s", made->directory, name), text, 0644, err))
        return false;
    note(made, "created", name);
    return true;
}

static bool complete_package(struct made *made, const char *path, struct error *err)
{
    AUTO_FREE char *text = NULL;
    AUTO(buf_finish) struct buf out = {.max = COMPLETED_MAX};

    if (!file_read(path, PACKAGE_MAX, &text, err))
        return false;
    if (!package_complete(str_of(text), &out, err))
        return error_wrap(err, "%s", path);
    if (str_equal(buf_str(&out), str_of(text)))
        return true;
    if (!file_publish(path, buf_str(&out), 0644, err))
        return false;
    note(made, "updated", "package.json");
    return true;
}

static bool make_package(struct made *made, struct error *err)
{
    const char *path = arena_printf(&made->arena, "%s/package.json", made->directory);
    AUTO(buf_finish) struct buf out = {.max = PACKAGE_MAX};

    if (is_there(path))
        return complete_package(made, path, err);
    return package_complete(STR("{}\n"), &out, err) &&
           create(made, "package.json", buf_str(&out), err);
}

bool init_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    const char *given = invocation_value(invocation, "dir");
    AUTO(finish_made)
    struct made made = {
        .directory = given ? given : ".",
        .as_json = invocation_has(invocation, "json"),
    };

    *exit_code = 0;
    if (!invocation_has(invocation, "force") && !check_free(&made.arena, made.directory, err))
        return false;
    if (!directory_make(arena_printf(&made.arena, "%s/tasks", made.directory), 0755, err) ||
        !create(&made, "helmr.config.ts", str_of(config_text), err) ||
        !create(&made, "tasks/hello.ts", str_of(task_text), err) || !make_package(&made, err))
        return false;
    if (made.as_json)
        print_document(&made);
    return true;
}
