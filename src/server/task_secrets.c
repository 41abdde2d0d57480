#include "server/task_secrets.h"

#include "model/name.h"
#include "protocol/worker_api.h"
#include "store/queries.h"

enum { SECRETS_MAX = WIRE_SECRETS_MAX, TEXT_MAX = 128 * 1024 };

static const struct str vault = STR("vault:");

static const struct json_field secret_fields[] = {
    {"name", JSON_TEXT, offsetof(struct task_secret, name), REQUIRED, .max = 128},
    {"placement", JSON_TEXT, offsetof(struct task_secret, placement), REQUIRED, .max = 8},
    {"target", JSON_TEXT, offsetof(struct task_secret, target), REQUIRED, .max = 4095},
    {"mode", JSON_TEXT, offsetof(struct task_secret, mode), OPTIONAL, .max = 4},
    {"owner", JSON_TEXT, offsetof(struct task_secret, owner), OPTIONAL, .max = 128},
    {0},
};

/* A list alone is no document of its own to the reader. */
struct wrapped {
    struct json_list secrets;
};

static const struct json_field wrapped_fields[] = {
    {"secrets", JSON_LIST, offsetof(struct wrapped, secrets), REQUIRED, .max = SECRETS_MAX,
     .fields = secret_fields, .size = sizeof(struct task_secret)},
    {0},
};

struct bindings {
    struct json_map map;
};

static const struct json_field bindings_fields[] = {
    {"map", JSON_MAP, offsetof(struct bindings, map), REQUIRED, .max = SECRETS_MAX},
    {0},
};

static struct str wrap(const char *name, struct str text, struct arena *arena)
{
    return str_of(arena_printf(arena, "{\"%s\":%.*s}", name, (int)text.len, text.ptr));
}

static bool path_check(const struct task_secret *secret, struct error *err)
{
    static const char *const reserved[] = {"/dev", "/opt/helmr", "/proc", "/sys"};
    struct str path = secret->target, rest = path, piece;

    if (path.len > 0 && path.ptr[0] == '/')
        rest = (struct str){path.ptr + 1, path.len - 1};
    if (rest.len == 0)
        return error_set(err, ERR_INVALID, "a secret needs a path");
    while (str_split(&rest, '/', &piece))
        if (piece.len == 0 || str_equal(piece, STR(".")) || str_equal(piece, STR("..")))
            return error_set(err, ERR_INVALID, "a secret's path must be clean");
    for (size_t i = 0; i < COUNT_OF(reserved); i++) {
        size_t len = strlen(reserved[i]);
        if (path.len >= len && memcmp(path.ptr, reserved[i], len) == 0 &&
            (path.len == len || path.ptr[len] == '/'))
            return error_set(err, ERR_INVALID, "a secret may not be at or below %s", reserved[i]);
    }
    return true;
}

static bool mode_check(struct str mode, struct error *err)
{
    bool is_octal = mode.len <= 3 || mode.ptr[0] == '0';

    for (size_t i = 0; i < mode.len; i++)
        is_octal = is_octal && mode.ptr[i] >= '0' && mode.ptr[i] <= '7';
    return is_octal || error_set(err, ERR_INVALID, "a secret's mode is octal, at most 0777");
}

static bool secret_check(const struct task_secret *secret, struct error *err)
{
    if (!name_check(NAME_SECRET, "the name of a secret", secret->name, err))
        return false;
    if (str_equal(secret->placement, STR("env")))
        return name_check(NAME_VARIABLE, "the variable of a secret", secret->target, err);
    if (!str_equal(secret->placement, STR("file")) && !str_equal(secret->placement, STR("dir")))
        return error_set(err, ERR_INVALID, "a secret is placed as env, file or dir");
    return path_check(secret, err) && mode_check(secret->mode, err);
}

bool task_secrets_read(struct str text, struct arena *arena, struct json_list *secrets,
                       struct error *err)
{
    struct wrapped wrapped;

    if (!json_read(wrap("secrets", text, arena), wrapped_fields, &wrapped, sizeof wrapped, arena,
                   err))
        return false;
    for (size_t i = 0; i < wrapped.secrets.n; i++)
        if (!secret_check((const struct task_secret *)wrapped.secrets.items + i, err))
            return false;
    *secrets = wrapped.secrets;
    return true;
}

/* The stored name behind a declared one; a binding is "vault:NAME" by now. */
static struct str stored_name(struct str name, const struct json_map *given)
{
    for (size_t i = 0; i < given->n; i++) {
        struct str source = given->pairs[i].value;
        if (str_equal(given->pairs[i].name, name) && source.len > vault.len)
            return (struct str){source.ptr + vault.len, source.len - vault.len};
    }
    return name;
}

struct binding {
    struct tx *tx;
    const char *environment;
    struct arena *arena;
    struct json_writer bindings, names, missing;
    size_t n_missing;
};

static bool bind_one(struct binding *binding, struct str name, struct str stored, struct error *err)
{
    struct rows rows;

    if (!STORE(binding->tx, &secret_get, binding->arena, &rows, err, V_TEXT(binding->environment),
               V_STR(stored)))
        return false;
    if (rows.n_rows == 0) {
        binding->n_missing++;
        json_text(&binding->missing, NULL, name);
    }
    json_string(&binding->bindings, arena_text(binding->arena, name),
                arena_printf(binding->arena, "vault:%.*s", (int)stored.len, stored.ptr));
    json_text(&binding->names, NULL, name);
    return true;
}

bool task_secrets_bind(struct tx *tx, const char *environment, struct str declared,
                       const struct json_map *given, struct arena *arena,
                       struct task_bindings *bound, struct error *err)
{
    AUTO(buf_finish) struct buf bindings = {.max = TEXT_MAX};
    AUTO(buf_finish) struct buf names = {.max = TEXT_MAX};
    AUTO(buf_finish) struct buf missing = {.max = TEXT_MAX};
    struct binding binding = {
        tx, environment, arena, json_begin(&bindings), json_begin(&names), json_begin(&missing), 0};
    struct json_list secrets;

    *bound = (struct task_bindings){STR("{}"), STR("[]"), {0}};
    if (str_equal(declared, STR("[]")))
        return true;
    if (!task_secrets_read(declared, arena, &secrets, err))
        return false;
    json_open(&binding.bindings, NULL);
    json_open_list(&binding.names, NULL);
    json_open(&binding.missing, NULL);
    json_open_list(&binding.missing, "names");
    const struct task_secret *items = secrets.items;
    for (size_t i = 0; i < secrets.n; i++)
        if (!bind_one(&binding, items[i].name, stored_name(items[i].name, given), err))
            return false;
    json_close(&binding.bindings);
    json_close_list(&binding.names);
    json_close_list(&binding.missing);
    json_close(&binding.missing);
    if (!json_end(&binding.bindings, err) || !json_end(&binding.names, err) ||
        !json_end(&binding.missing, err))
        return false;
    bound->bindings = arena_str(arena, buf_str(&bindings));
    bound->names = arena_str(arena, buf_str(&names));
    if (binding.n_missing == 0)
        return true;
    bound->missing = arena_str(arena, buf_str(&missing));
    return error_set(err, ERR_SECRET_MISSING,
                     "the environment does not have every secret that the task needs");
}

bool task_secrets_of_run(struct tx *tx, const char *run_id, struct arena *arena,
                         struct json_list *secrets, struct json_list *stored, struct error *err)
{
    struct json_list declared;
    struct bindings bound;
    struct rows rows;

    if (!STORE(tx, &run_secrets_get, arena, &rows, err, V_TEXT(run_id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such run");
    struct str text = wrap("map", row_str(&rows, 0, RUN_SECRETS_GET_BINDINGS), arena);
    if (!task_secrets_read(row_str(&rows, 0, RUN_SECRETS_GET_DECLARED), arena, &declared, err) ||
        !json_read(text, bindings_fields, &bound, sizeof bound, arena, err))
        return false;

    const struct task_secret *items = declared.items;
    struct wire_secret *list = arena_array(arena, declared.n + 1, sizeof *list);
    struct str *names = arena_array(arena, declared.n + 1, sizeof *names);
    for (size_t i = 0; i < declared.n; i++) {
        names[i] = stored_name(items[i].name, &bound.map);
        list[i] = (struct wire_secret){
            .name = items[i].name,
            .placement = items[i].placement,
            .target = items[i].target,
            .mode = items[i].mode,
            .owner = items[i].owner,
        };
    }
    *secrets = (struct json_list){list, declared.n};
    *stored = (struct json_list){names, declared.n};
    return true;
}
