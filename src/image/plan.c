#include "image/plan.h"

#include "base/own.h"

enum {
    PLANS_MAX = 1000,
    STEPS_MAX = 1000,
    ARGUMENTS_MAX = 1024,
    ARGUMENT_MAX = 64 * 1024,
    TEXT_MAX = 16 << 20,
    MOUNTS_MAX = 64,
    PATH_TEXT_MAX = 4096,
};

struct plan_document {
    struct str id;
    struct json_list steps;
};

static const struct json_field cache_fields[] = {
    {"mount_path", JSON_TEXT, offsetof(struct step_mount, path), REQUIRED, .max = PATH_TEXT_MAX},
    {"cache", JSON_TEXT, offsetof(struct step_mount, id), REQUIRED, .max = 128},
    {0},
};

static const struct json_field secret_fields[] = {
    {"mount_path", JSON_TEXT, offsetof(struct step_mount, path), REQUIRED, .max = PATH_TEXT_MAX},
    {"secret", JSON_TEXT, offsetof(struct step_mount, id), REQUIRED, .max = 128},
    {0},
};

static const struct json_field source_fields[] = {
    {"file", JSON_TEXT, offsetof(struct step_source, file), OPTIONAL, .max = PATH_TEXT_MAX},
    {"directory", JSON_TEXT, offsetof(struct step_source, directory), OPTIONAL,
     .max = PATH_TEXT_MAX},
    {"ignore", JSON_LIST, offsetof(struct step_source, ignore), OPTIONAL, .max = 256},
    {0},
};

static const struct json_field step_fields[] = {
    {"kind", JSON_TEXT, offsetof(struct step, kind_name), REQUIRED, .max = 16},
    {"ref", JSON_TEXT, offsetof(struct step, ref), OPTIONAL, .max = 512},
    {"argv", JSON_LIST, offsetof(struct step, argv), OPTIONAL, .max = ARGUMENTS_MAX},
    {"cache", JSON_LIST, offsetof(struct step, cache), OPTIONAL, .max = MOUNTS_MAX,
     .fields = cache_fields, .size = sizeof(struct step_mount)},
    {"secrets", JSON_LIST, offsetof(struct step, secrets), OPTIONAL, .max = MOUNTS_MAX,
     .fields = secret_fields, .size = sizeof(struct step_mount)},
    {"dest", JSON_TEXT, offsetof(struct step, dest), OPTIONAL, .max = PATH_TEXT_MAX},
    {"source", JSON_OBJ, offsetof(struct step, source), OPTIONAL, .fields = source_fields},
    {"image", JSON_TEXT, offsetof(struct step, image), OPTIONAL, .max = 128},
    {"path", JSON_TEXT, offsetof(struct step, path), OPTIONAL, .max = PATH_TEXT_MAX},
    {"key", JSON_TEXT, offsetof(struct step, key), OPTIONAL, .max = 128},
    {"value", JSON_TEXT, offsetof(struct step, value), OPTIONAL, .max = 1 << 17},
    {"name", JSON_TEXT, offsetof(struct step, name), OPTIONAL, .max = 64},
    {0},
};

static const struct json_field plan_fields[] = {
    {"id", JSON_TEXT, offsetof(struct plan_document, id), REQUIRED, .max = 128},
    {"steps", JSON_LIST, offsetof(struct plan_document, steps), REQUIRED, .max = STEPS_MAX,
     .fields = step_fields, .size = sizeof(struct step)},
    {0},
};

bool plan_is_excluded(struct str name)
{
    static const char *const names[] = {"node_modules", ".git", ".helmr", ".next", ".env"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_equal(name, str_of(names[i])))
            return true;
    return name.len > 5 && memcmp(name.ptr, ".env.", 5) == 0;
}

bool plan_name_is_valid(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_word && (i == 0 || !strchr("._-", c)))
            return false;
    }
    return text.len > 0;
}

const char *plan_reserved_path(struct str path)
{
    static const char *const reserved[] = {"/dev", "/opt/helmr", "/proc", "/sys"};

    for (size_t i = 0; i < COUNT_OF(reserved); i++) {
        size_t len = strlen(reserved[i]);
        if (path.len >= len && memcmp(path.ptr, reserved[i], len) == 0 &&
            (path.len == len || path.ptr[len] == '/'))
            return reserved[i];
    }
    return NULL;
}

static bool from_is_valid(const struct step *step)
{
    return step->ref.len > 0;
}

static bool run_is_valid(const struct step *step)
{
    const struct str *argv = step->argv.items;

    for (size_t i = 0; i < step->argv.n; i++)
        if (argv[i].len > ARGUMENT_MAX)
            return false;
    return step->argv.n > 0 && argv[0].len > 0 && (step->cache.n == 0 || step->secrets.n == 0);
}

/* Inside the project by text: relative, no "..", no excluded name. "." is the project itself. */
static bool source_path_is_valid(struct str path)
{
    struct str rest = path, segment;

    if (path.len == 0 || path.ptr[0] == '/')
        return false;
    while (str_split(&rest, '/', &segment))
        if (str_equal(segment, STR("..")) || plan_is_excluded(segment))
            return false;
    return true;
}

static bool copy_is_valid(const struct step *step)
{
    const struct step_source *source = &step->source;
    int kinds = (source->file.len > 0) + (source->directory.len > 0) + (step->image.len > 0);

    return step->dest.len > 0 && kinds == 1 &&
           (!source->file.len || source_path_is_valid(source->file)) &&
           (!source->directory.len || source_path_is_valid(source->directory)) &&
           (!step->image.len || plan_name_is_valid(step->image));
}

static bool copy_from_is_valid(const struct step *step)
{
    return step->dest.len > 0 && step->path.len > 0 && plan_name_is_valid(step->image);
}

static bool workdir_is_valid(const struct step *step)
{
    return step->path.len > 0;
}

static bool env_is_valid(const struct step *step)
{
    return step->key.len > 0 && !memchr(step->key.ptr, '=', step->key.len);
}

static bool user_is_valid(const struct step *step)
{
    return step->name.len > 0;
}

static const struct step_rule {
    const char *name;
    enum step_kind kind;
    bool (*is_valid)(const struct step *step);
    const char *wants;
} rules[] = {
    {"from",     STEP_FROM,      from_is_valid,      "an image reference"                      },
    {"run",      STEP_RUN,       run_is_valid,
     "a command of up to 1024 arguments of 64 KiB; a cache and a secret never in one step"     },
    {"copy",     STEP_COPY,      copy_is_valid,
     "a destination, and a file or directory inside the project or an image"                   },
    {"copyFrom", STEP_COPY_FROM, copy_from_is_valid, "a destination, an image and a path in it"},
    {"workdir",  STEP_WORKDIR,   workdir_is_valid,   "a path"                                  },
    {"env",      STEP_ENV,       env_is_valid,       "a name without \"=\" and a value"        },
    {"user",     STEP_USER,      user_is_valid,      "a name"                                  },
};

/* Absolute, every segment a name, and not the root. */
static bool mount_path_is_valid(struct str path)
{
    struct str rest = {path.ptr + 1, path.len - 1}, segment;

    if (path.len < 2 || path.ptr[0] != '/' || path.ptr[path.len - 1] == '/')
        return false;
    while (str_split(&rest, '/', &segment))
        if (!segment.len || str_equal(segment, STR(".")) || str_equal(segment, STR("..")))
            return false;
    return true;
}

/* What is wrong with a mount, or NULL. */
static const char *fault_of_mount(const struct json_list *list, size_t at)
{
    const struct step_mount *mounts = list->items;

    if (!mount_path_is_valid(mounts[at].path))
        return "its path must be absolute, below / and without . or ..";
    if (plan_reserved_path(mounts[at].path))
        return "its path is reserved for the platform";
    if (!plan_name_is_valid(mounts[at].id))
        return "its name must be letters, digits and . _ -";
    for (size_t i = 0; i < at; i++)
        if (str_equal(mounts[i].path, mounts[at].path))
            return "its path is used twice";
    return NULL;
}

static bool check_mounts(const struct plan *plan, size_t at, struct error *err)
{
    const struct json_list *lists[] = {&plan->steps[at].cache, &plan->steps[at].secrets};

    for (size_t i = 0; i < COUNT_OF(lists); i++)
        for (size_t j = 0; j < lists[i]->n; j++) {
            const struct step_mount *mount = (const struct step_mount *)lists[i]->items + j;
            const char *fault = fault_of_mount(lists[i], j);
            if (fault)
                return error_set(err, ERR_INVALID, "image %s: step %zu: %s %.64s at %.64s: %s",
                                 plan->id.ptr, at + 1, i == 0 ? "cache" : "secret", mount->id.ptr,
                                 mount->path.ptr, fault);
        }
    return true;
}

static bool check_step(const struct plan *plan, size_t at, struct error *err)
{
    struct step *step = &plan->steps[at];

    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        if (!str_equal(step->kind_name, str_of(rules[i].name)))
            continue;
        step->kind = rules[i].kind;
        if ((step->kind == STEP_FROM) != (at == 0))
            return error_set(err, ERR_INVALID, "image %s: from must be the first step, and only it",
                             plan->id.ptr);
        if (!rules[i].is_valid(step))
            return error_set(err, ERR_INVALID, "image %s: step %zu: %s needs %s", plan->id.ptr,
                             at + 1, rules[i].name, rules[i].wants);
        return check_mounts(plan, at, err);
    }
    return error_set(err, ERR_INVALID, "image %s: step %zu is of an unknown kind, \"%s\"",
                     plan->id.ptr, at + 1, step->kind_name.ptr);
}

static bool take_document(const struct plan_document *document, struct plan *plan,
                          struct error *err)
{
    struct plan found = {document->id, document->steps.items, document->steps.n};

    if (!plan_name_is_valid(found.id))
        return error_set(err, ERR_INVALID, "an image's id must be letters, digits and . _ -");
    if (found.n_steps == 0)
        return error_set(err, ERR_INVALID, "image %s has no steps", found.id.ptr);
    for (size_t i = 0; i < found.n_steps; i++)
        if (!check_step(&found, i, err))
            return false;
    *plan = found;
    return true;
}

bool plan_read(struct str text, struct arena *arena, struct plan *plan, struct error *err)
{
    struct plan_document document;

    if (text.len > TEXT_MAX)
        return error_set(err, ERR_TOO_LARGE, "an image's plan is over %d bytes", TEXT_MAX);
    return json_read(text, plan_fields, &document, sizeof document, arena, err) &&
           take_document(&document, plan, err);
}

bool plan_read_all(struct str list, struct arena *arena, struct plan **plans, size_t *n,
                   struct error *err)
{
    static const struct json_field fields[] = {
        {"images", JSON_LIST, 0, REQUIRED, .max = PLANS_MAX, .fields = plan_fields,
         .size = sizeof(struct plan_document)},
        {0},
    };
    struct json_list documents;

    if (list.len > TEXT_MAX)
        return error_set(err, ERR_TOO_LARGE, "the images' plans are over %d bytes", TEXT_MAX);
    const char *wrapped = arena_printf(arena, "{\"images\":%.*s}", (int)list.len, list.ptr);
    if (!json_read(str_of(wrapped), fields, &documents, sizeof documents, arena, err))
        return false;
    struct plan *found = arena_array(arena, documents.n + 1, sizeof *found);
    const struct plan_document *rows = documents.items;
    for (size_t i = 0; i < documents.n; i++)
        if (!take_document(&rows[i], &found[i], err))
            return false;
    *plans = found;
    *n = documents.n;
    return true;
}

/* Appends what fits; control characters become spaces, so that a step stays one line. */
static void add_text(char text[STEP_TEXT], struct str more)
{
    size_t len = strlen(text), room = STEP_TEXT - 1 - len;

    for (size_t i = 0; i < more.len && i < room; i++) {
        unsigned char c = (unsigned char)more.ptr[i];
        text[len++] = (char)(c < ' ' || c == 0x7f ? ' ' : c);
    }
    text[len] = '\0';
    if (more.len <= room)
        return;
    /* Cut before a character, not inside one. */
    for (len -= 3; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80;)
        len--;
    memcpy(text + len, "…", sizeof "…");
}

static void add_word(char text[STEP_TEXT], struct str word)
{
    add_text(text, STR(" "));
    add_text(text, word);
}

static void add_copy(const struct step *step, char text[STEP_TEXT])
{
    if (step->image.len) {
        add_text(text, STR(" --from="));
        add_text(text, step->image);
        add_word(text, step->kind == STEP_COPY_FROM ? step->path : STR("/"));
    } else {
        add_word(text, step->source.file.len ? step->source.file : step->source.directory);
    }
    add_word(text, step->dest);
}

void step_text(const struct step *step, char text[STEP_TEXT])
{
    static const char *const words[] = {
        [STEP_FROM] = "FROM",      [STEP_RUN] = "RUN",         [STEP_COPY] = "COPY",
        [STEP_COPY_FROM] = "COPY", [STEP_WORKDIR] = "WORKDIR", [STEP_ENV] = "ENV",
        [STEP_USER] = "USER",
    };
    const struct str *argv = step->argv.items;

    text[0] = '\0';
    add_text(text, str_of(words[step->kind]));
    switch (step->kind) {
    case STEP_FROM: add_word(text, step->ref); break;
    case STEP_RUN:
        for (size_t i = 0; i < step->argv.n; i++)
            add_word(text, argv[i]);
        break;
    case STEP_COPY:
    case STEP_COPY_FROM: add_copy(step, text); break;
    case STEP_WORKDIR: add_word(text, step->path); break;
    case STEP_ENV: add_word(text, step->key); break;
    case STEP_USER: add_word(text, step->name); break;
    }
}

void step_text_cut(char text[STEP_TEXT], size_t room)
{
    if (strlen(text) < room)
        return;
    size_t len = room - sizeof "…";
    while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
        len--;
    memcpy(text + len, "…", sizeof "…");
}
