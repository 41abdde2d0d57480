#include "base/env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/own.h"

enum { FILE_MAX = 1 << 20, VALUE_MAX = 64 * 1024, NAME_MAX_LEN = 128 };

extern char **environ;

static bool is_name_char(char c, bool is_first)
{
    bool is_letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';

    return is_letter || (!is_first && c >= '0' && c <= '9');
}

static struct str trim(struct str text)
{
    return str_trim(text, STR(" \t\r"));
}

static struct str without_export(struct str line)
{
    if (line.len > 7 && !memcmp(line.ptr, "export", 6) && strchr(" \t", line.ptr[6]))
        return trim((struct str){line.ptr + 7, line.len - 7});
    return line;
}

static char unescape(char c)
{
    static const char forms[] = "n\nr\rt\t\"\"\\\\";
    const char *at = forms;

    while (*at && *at != c)
        at += 2;
    return (char)(at[0] ? at[1] : '\0');
}

/* The text between the quotes; *rest is what follows the closing one. */
static bool read_quoted(struct str text, char *out, struct str *rest)
{
    char quote = text.ptr[0];

    for (size_t i = 1; i < text.len; i++) {
        char c = text.ptr[i];

        if (c == quote) {
            *rest = trim((struct str){text.ptr + i + 1, text.len - i - 1});
            return true;
        }
        if (quote == '"' && c == '\\') {
            if (++i == text.len)
                return false;
            c = unescape(text.ptr[i]);
            if (!c)
                return false;
        }
        *out++ = c;
    }
    return false;
}

static struct str without_comment(struct str text)
{
    for (size_t i = 1; i < text.len; i++) {
        if (text.ptr[i] == '#' && strchr(" \t", text.ptr[i - 1]))
            return trim((struct str){text.ptr, i});
    }
    return text.len && text.ptr[0] == '#' ? (struct str){text.ptr, 0} : text;
}

static const char *read_value(struct str text, struct arena *arena)
{
    if (!text.len || (text.ptr[0] != '\'' && text.ptr[0] != '"'))
        return arena_text(arena, without_comment(text));

    char *value = arena_alloc(arena, text.len);
    struct str rest;

    if (!read_quoted(text, value, &rest) || (rest.len && rest.ptr[0] != '#'))
        return NULL;
    return value;
}

static bool read_line(struct str line, size_t number, struct arena *arena, struct env_pair *pair,
                      struct error *err)
{
    size_t len = 0;

    line = without_export(line);
    while (len < line.len && is_name_char(line.ptr[len], len == 0))
        len++;

    struct str name = {line.ptr, len};
    struct str after = trim((struct str){line.ptr + len, line.len - len});

    if (!len || len > NAME_MAX_LEN || !after.len || after.ptr[0] != '=')
        return error_set(err, ERR_INVALID, "line %zu is not KEY=VALUE", number);
    pair->name = arena_text(arena, name);
    pair->value = read_value(trim((struct str){after.ptr + 1, after.len - 1}), arena);
    if (!pair->value)
        return error_set(err, ERR_INVALID, "line %zu: the quotes of %s do not end well", number,
                         pair->name);
    return true;
}

bool env_parse(struct str text, struct arena *arena, struct env_pair **pairs, size_t *n,
               struct error *err)
{
    struct str rest = text, line;
    size_t count = 1, number = 0, used = 0;

    if (text.len && memchr(text.ptr, '\0', text.len))
        return error_set(err, ERR_INVALID, "holds a NUL byte");
    for (size_t i = 0; i < text.len; i++)
        count += text.ptr[i] == '\n';

    struct env_pair *list = arena_array(arena, count, sizeof *list);

    while (str_split(&rest, '\n', &line)) {
        number++;
        line = trim(line);
        if (!line.len || line.ptr[0] == '#')
            continue;
        if (!read_line(line, number, arena, &list[used++], err))
            return false;
    }
    *pairs = list;
    *n = used;
    return true;
}

bool env_load(struct env *env, const char *path, struct error *err)
{
    AUTO_FREE char *text = NULL;
    struct env_pair *pairs = NULL;
    size_t n = 0;

    if (!file_read(path, FILE_MAX, &text, err))
        return err->sys == ENOENT;
    if (!env_parse(str_of(text), &env->arena, &pairs, &n, err))
        return error_wrap(err, "%s", path);
    bytes_wipe(text, strlen(text));
    for (size_t i = 0; i < n; i++)
        map_put(&env->values, str_of(pairs[i].name), (void *)pairs[i].value);
    return true;
}

void env_finish(struct env *env)
{
    map_finish(&env->values);
    arena_finish(&env->arena);
}

const char *env_find(const struct env *env, const char *name)
{
    const char *value = getenv(name);

    if (!value || !*value)
        value = map_find(&env->values, str_of(name));
    return value && *value ? value : NULL;
}

const char *env_text(const struct env *env, const char *name, const char *otherwise)
{
    const char *value = env_find(env, name);

    return value ? value : otherwise;
}

bool env_int(const struct env *env, const char *name, int64_t min, int64_t max, int64_t otherwise,
             int64_t *value, struct error *err)
{
    const char *text = env_find(env, name);

    if (!text) {
        *value = otherwise;
        return true;
    }

    char *end;

    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || *end || end == text || number < min || number > max)
        return error_set(err, ERR_INVALID, "%s must be a whole number from %lld to %lld", name,
                         (long long)min, (long long)max);
    *value = number;
    return true;
}

bool env_bool(const struct env *env, const char *name, bool otherwise, bool *value,
              struct error *err)
{
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    const char *text = env_find(env, name);

    if (!text) {
        *value = otherwise;
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (str_equal_nocase(str_of(text), str_of(words[i]))) {
            *value = i % 2;
            return true;
        }
    }
    return error_set(err, ERR_INVALID, "%s must be one of 1 true yes on, 0 false no off", name);
}

bool env_size(const struct env *env, const char *name, int64_t otherwise, int64_t *bytes,
              struct error *err)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    const char *text = env_find(env, name);

    if (!text) {
        *bytes = otherwise;
        return true;
    }

    char *end;

    errno = 0;
    long long number = strtoll(text, &end, 10);
    for (size_t i = 0; !errno && end != text && number >= 0 && i < COUNT_OF(units); i++) {
        if (strcmp(end, units[i]) == 0 && number <= INT64_MAX >> (10 * i)) {
            *bytes = (int64_t)number << (10 * i);
            return true;
        }
    }
    return error_set(err, ERR_INVALID, "%s must be a size such as 512MiB", name);
}

static bool read_secret_file(const char *name, const char *path, struct secret *value,
                             struct error *err)
{
    AUTO_FREE char *text = NULL;

    if (!file_read(path, VALUE_MAX, &text, err))
        return error_wrap(err, "%s", name);

    size_t len = strlen(text), whole = len;

    while (len && strchr("\r\n", text[len - 1]))
        len--;
    if (len)
        *value = secret_create((struct str){text, len});
    bytes_wipe(text, whole);
    return len || error_set(err, ERR_INVALID, "%s names an empty file", name);
}

bool env_secret(const struct env *env, const char *name, struct secret *value, struct error *err)
{
    char in_file[NAME_MAX_LEN + 8];

    snprintf(in_file, sizeof in_file, "%s_FILE", name);

    const char *text = env_find(env, name), *path = env_find(env, in_file);

    if (text && path)
        return error_set(err, ERR_INVALID, "%s and %s are both set", name, in_file);
    if (path)
        return read_secret_file(in_file, path, value, err);
    if (text)
        *value = secret_create(str_of(text));
    return true;
}

static bool is_known(const char *const *names, struct str name)
{
    struct str base = name;

    if (name.len > 5 && !memcmp(name.ptr + name.len - 5, "_FILE", 5))
        base.len -= 5;
    for (; *names; names++) {
        if (str_equal(str_of(*names), name) || str_equal(str_of(*names), base))
            return true;
    }
    return false;
}

bool env_unknown(struct env *env, const char *prefix, const char *const *names, size_t *at,
                 const char **name)
{
    size_t n = 0;

    for (char **entry = environ; *entry; entry++, n++) {
        struct str own = {*entry, strcspn(*entry, "=")};

        if (n < *at || strncmp(own.ptr, prefix, strlen(prefix)) != 0 || is_known(names, own))
            continue;
        *at = n + 1;
        *name = arena_text(&env->arena, own);
        return true;
    }

    size_t place = *at > n ? *at - n : 0;
    struct str key;
    void *value;

    while (map_next(&env->values, &place, &key, &value)) {
        bool has_prefix = key.len >= strlen(prefix) && !memcmp(key.ptr, prefix, strlen(prefix));

        if (!has_prefix || is_known(names, key))
            continue;
        *at = n + place;
        *name = arena_text(&env->arena, key);
        return true;
    }
    return false;
}
