/* `helmr diff A [B]`: what a run or the last version of a workspace changed, or what differs
 * between two of them. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "base/table.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/scan.h"

#define GREEN  "\033[32m"
#define RED    "\033[31m"
#define CYAN   "\033[36m"
#define YELLOW "\033[33m"
#define PLAIN  "\033[0m"

#define DOCUMENT_MAX ((size_t)256 * 1024 * 1024)

enum diff_form { FORM_LINES, FORM_PATCH, FORM_STAT, FORM_JSON };

/* A run or a workspace, and the version of it that is meant: of what was never changed, the image.
 */
struct target {
    bool is_run;
    enum { RUN_RESTS, RUN_WORKS, RUN_WAITS } state; /* of a run: whether it may be in a sandbox */
    const char *workspace_id, *version;
};

struct printing {
    struct api *api;
    enum diff_form form;
    bool has_colour;
    struct buf document; /* entries of FORM_JSON */
    int64_t files, added, removed;
};

static const struct {
    const char *change, *sign, *colour;
} signs[] = {
    {"added",        "A", GREEN },
    {"deleted",      "D", RED   },
    {"modified",     "M", YELLOW},
    {"mode_changed", "M", YELLOW},
    {"type_changed", "T", YELLOW},
    {"renamed",      "R", CYAN  },
};

static void paint(const struct printing *printing, const char *colour)
{
    if (printing->has_colour)
        fputs(colour, stdout);
}

/* A name with a line end in it could pass for two. */
static void put_path(struct str path, struct arena *arena)
{
    char *text = arena_text(arena, path);

    for (size_t i = 0; i < path.len; i++)
        if (text[i] == '\n')
            text[i] = '?';
    output_clean(stdout, (struct str){text, path.len});
}

static void put_line(const struct printing *printing, struct str entry, struct arena *arena)
{
    struct str change = output_value(entry, "change", arena);
    size_t row = 0;
    int64_t before, after;

    for (size_t i = 0; i < COUNT_OF(signs); i++)
        if (str_equal(change, str_of(signs[i].change)))
            row = i;
    paint(printing, signs[row].colour);
    printf("%s ", signs[row].sign);
    if (str_equal(change, STR("renamed"))) {
        put_path(output_value(entry, "path_before", arena), arena);
        fputs(" → ", stdout);
    }
    put_path(output_value(entry, "path", arena), arena);
    if (str_equal(output_value(entry, "type", arena), STR("directory")))
        putchar('/');
    if (str_equal(change, STR("mode_changed")) && json_find_int(entry, "mode_before", &before) &&
        json_find_int(entry, "mode_after", &after) && before != after)
        printf(" (mode %04o → %04o)", (unsigned)before, (unsigned)after);
    paint(printing, PLAIN);
    putchar('\n');
}

static const char *colour_of(struct str line)
{
    switch (line.len > 0 ? line.ptr[0] : ' ') {
    case '+': return GREEN;
    case '-': return RED;
    case '@': return CYAN;
    default: return "";
    }
}

static void put_patch(const struct printing *printing, struct str patch)
{
    struct str line;

    while (patch.len > 0 && str_split(&patch, '\n', &line)) {
        const char *colour = colour_of(line);

        if (*colour)
            paint(printing, colour);
        output_clean(stdout, line);
        if (*colour)
            paint(printing, PLAIN);
        putchar('\n');
    }
}

/* Lines of the hunks; the two headers are none. */
static void count_lines(struct str patch, int64_t *added, int64_t *removed)
{
    struct str line;
    bool is_hunk = false;

    *added = *removed = 0;
    while (patch.len > 0 && str_split(&patch, '\n', &line)) {
        int sign = line.len > 0 ? line.ptr[0] : ' ';

        is_hunk = is_hunk || sign == '@';
        *added += is_hunk && sign == '+';
        *removed += is_hunk && sign == '-';
    }
}

static void put_stat(struct printing *printing, struct str entry, struct arena *arena)
{
    int64_t added, removed;
    struct str binary = output_value(entry, "binary", arena);

    count_lines(output_value(entry, "patch", arena), &added, &removed);
    printing->added += added;
    printing->removed += removed;
    put_path(output_value(entry, "path", arena), arena);
    if (str_equal(binary, STR("true")))
        fputs("\tbinary\n", stdout);
    else
        printf("\t+%lld\t-%lld\n", (long long)added, (long long)removed);
}

static bool put_entry(struct printing *printing, struct str entry, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct buf *document = &printing->document;

    printing->files++;
    if (printing->form == FORM_JSON)
        return (document->len == 0 || buf_append(document, STR(","), err)) &&
               buf_append(document, entry, err);
    if (printing->form == FORM_STAT) {
        put_stat(printing, entry, &arena);
        return true;
    }
    struct str patch = output_value(entry, "patch", &arena);
    if (printing->form == FORM_PATCH && patch.len > 0) {
        put_patch(printing, patch);
        return true;
    }
    put_line(printing, entry, &arena);
    if (printing->form == FORM_PATCH &&
        str_equal(output_value(entry, "binary", &arena), STR("true")))
        puts("Binary files differ");
    return true;
}

static bool put_page(struct printing *printing, struct str page, struct error *err)
{
    struct str rest, entry;

    if (!json_find_raw(page, "entries", &printing->api->arena, &rest))
        return error_set(err, ERR_UNAVAILABLE, "the server's answer has no entries");
    while (scan_item(&rest, &entry))
        if (!put_entry(printing, entry, err))
            return false;
    return true;
}

static void put_version(struct str page, const char *name, struct arena *arena)
{
    struct str id = output_value(page, name, arena);

    if (id.len > 0)
        printf("\"%s\":\"%.*s\",", name, (int)id.len, id.ptr);
    else
        printf("\"%s\":null,", name);
}

static void put_end(struct printing *printing, struct str page)
{
    struct str entries = buf_str(&printing->document);

    if (printing->form == FORM_STAT && printing->files > 0)
        printf("%lld changed, +%lld, -%lld\n", (long long)printing->files,
               (long long)printing->added, (long long)printing->removed);
    if (printing->form != FORM_JSON)
        return;
    putchar('{');
    put_version(page, "from_version_id", &printing->api->arena);
    put_version(page, "to_version_id", &printing->api->arena);
    printf("\"entries\":[%.*s]}\n", (int)entries.len, entries.len ? entries.ptr : "");
}

/* A workspace has no version before something was changed in it. */
static const char *version_in(struct api *api, struct str object, const char *name)
{
    struct str id = output_value(object, name, &api->arena);

    return id.len > 0 ? arena_text(&api->arena, id) : "image";
}

/* All pages of the difference at that path, which has a query, from the first one on. They are of
 * the versions that this names: what a sandbox holds is another thing by the next page. */
static bool print_all(struct printing *printing, const char *path, struct str page,
                      struct error *err)
{
    struct api *api = printing->api;

    for (;;) {
        if (!put_page(printing, page, err))
            return false;
        struct str cursor = output_value(page, "next_cursor", &api->arena);
        if (cursor.len == 0)
            break;
        const char *next =
            arena_printf(&api->arena, "%s&from=%s&to=%s&cursor=%.*s", path,
                         version_in(api, page, "from_version_id"),
                         version_in(api, page, "to_version_id"), (int)cursor.len, cursor.ptr);
        if (!api_send(api, "GET", next, (struct str){0}, &page, err))
            return false;
    }
    put_end(printing, page);
    return true;
}

static bool find_target(struct api *api, const char *id, struct target *target, struct error *err)
{
    const char *part = api_part(api, id);
    struct str object;

    if (api_send(api, "GET", api_path(api, "/runs/%s", part), (struct str){0}, &object, err)) {
        struct str status = output_value(object, "status", &api->arena);

        *target = (struct target){
            .is_run = true,
            .state = str_equal(status, STR("running"))   ? RUN_WORKS
                     : str_equal(status, STR("waiting")) ? RUN_WAITS
                                                         : RUN_RESTS,
            .workspace_id =
                arena_text(&api->arena, output_value(object, "workspace_id", &api->arena)),
            .version = version_in(api, object, "result_version_id"),
        };
        return true;
    }
    if (err->code != ERR_NOT_FOUND)
        return false;
    if (!api_send(api, "GET", api_path(api, "/workspaces/%s/diff?limit=1", part), (struct str){0},
                  &object, err))
        return err->code == ERR_NOT_FOUND
                   ? error_set(err, ERR_NOT_FOUND, "there is no run and no workspace %s", id)
                   : false;
    *target = (struct target){
        .workspace_id = part,
        .version = version_in(api, object, "to_version_id"),
    };
    return true;
}

/* Which versions are meant, as the end of a query. */
static const char *versions_of(struct api *api, const struct invocation *invocation,
                               const struct target *a, const struct target *b)
{
    static const char *const names[] = {"from", "to"};
    const char *query = "";

    if (b)
        return arena_printf(&api->arena, "&from=%s&to=%s", a->version, b->version);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *value = invocation_value(invocation, names[i]);
        if (value)
            query = arena_printf(&api->arena, "%s&%s=%s", query, names[i], api_part(api, value));
    }
    return query;
}

/* A run that is in a sandbox is what that holds, unless somebody names versions; when it cannot be
 * asked, its newest version is the next best. Of one that waits in no sandbox nothing is newer. */
static bool ask_first(struct api *api, const char *path, const char *versions,
                      const struct target *target, struct str *page, struct error *err)
{
    if (*versions || target->state == RUN_RESTS)
        return api_send(api, "GET", arena_printf(&api->arena, "%s%s", path, versions),
                        (struct str){0}, page, err);
    if (api_send(api, "GET", arena_printf(&api->arena, "%s&to=live", path), (struct str){0}, page,
                 err))
        return true;
    if (err->code != ERR_NOT_MOUNTED)
        return false;
    if (target->state == RUN_WORKS)
        fprintf(stderr, "helmr: %s; this is its newest version\n", err->text);
    return api_send(api, "GET", path, (struct str){0}, page, err);
}

static enum diff_form form_of(const struct invocation *invocation)
{
    if (invocation_has(invocation, "json"))
        return FORM_JSON;
    if (invocation_has(invocation, "stat"))
        return FORM_STAT;
    return invocation_has(invocation, "patch") ? FORM_PATCH : FORM_LINES;
}

bool diff_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct printing printing = {
        .api = &api,
        .form = form_of(invocation),
        .has_colour = colour_is_wanted(stdout),
        .document = {.max = DOCUMENT_MAX},
    };
    bool has_two = invocation->n_args == 2;
    bool has_patch = printing.form == FORM_STAT || invocation_has(invocation, "patch");
    struct target a = {0}, b = {0};
    struct str page;

    *exit_code = 0;
    if (has_two && (invocation_has(invocation, "from") || invocation_has(invocation, "to")))
        return error_set(err, ERR_INVALID, "--from and --to are versions of one run or workspace");
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !find_target(&api, invocation->args[0], &a, err) ||
        (has_two && !find_target(&api, invocation->args[1], &b, err)))
        return false;
    const char *path =
        a.is_run && !has_two
            ? api_path(&api, "/runs/%s/diff?patch=%d", api_part(&api, invocation->args[0]),
                       has_patch)
            : api_path(&api, "/workspaces/%s/diff?patch=%d", a.workspace_id, has_patch);
    const char *versions = versions_of(&api, invocation, &a, has_two ? &b : NULL);
    bool fine =
        ask_first(&api, path, versions, &a, &page, err) && print_all(&printing, path, page, err);
    buf_finish(&printing.document);
    return fine;
}
