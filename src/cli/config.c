#include "cli/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "cli/keyring.h"
#include "cli/toml.h"

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

bool config_directory(struct arena *arena, const char **path, struct error *err)
{
    const char *own = variable("HELMR_CONFIG_DIR"), *shared = variable("XDG_CONFIG_HOME");
    const char *home = variable("HOME");

    if (own)
        *path = arena_text(arena, str_of(own));
    else if (shared)
        *path = arena_printf(arena, "%s/helmr", shared);
    else if (home)
        *path = arena_printf(arena, "%s/.config/helmr", home);
    else
        return error_set(err, ERR_INVALID, "HOME is not set: set HELMR_CONFIG_DIR");
    return true;
}

/* Nothing there is an empty file. */
static bool read_file(const char *path, bool is_secret, struct arena *arena, char **text,
                      struct error *err)
{
    struct stat info;

    *text = arena_text(arena, STR(""));
    if (stat(path, &info) < 0)
        return errno == ENOENT || error_errno(err, "%s", path);
    if (is_secret && (info.st_mode & 077) != 0)
        return error_set(err, ERR_FORBIDDEN, "%s can be read by others: chmod 600 %s", path, path);
    AUTO_FREE char *raw = NULL;
    if (!file_read(path, TOML_BYTES_MAX, &raw, err))
        return false;
    *text = arena_text(arena, str_of(raw));
    bytes_wipe(raw, strlen(raw));
    return true;
}

struct store {
    const char *directory, *path;
    struct toml_pair *pairs;
    size_t n;
};

static bool store_load(const char *name, bool is_secret, struct arena *arena, struct store *store,
                       struct error *err)
{
    char *text;

    *store = (struct store){0};
    if (!config_directory(arena, &store->directory, err))
        return false;
    store->path = arena_printf(arena, "%s/%s", store->directory, name);
    if (!read_file(store->path, is_secret, arena, &text, err))
        return false;
    return toml_parse(str_of(text), arena, &store->pairs, &store->n, err) ||
           error_wrap(err, "%s", store->path);
}

static struct toml_pair *store_find(const struct store *store, const char *key)
{
    for (size_t i = 0; i < store->n; i++) {
        if (str_equal(store->pairs[i].key, str_of(key)))
            return &store->pairs[i];
    }
    return NULL;
}

static bool store_save(const struct store *store, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = TOML_BYTES_MAX};

    for (size_t i = 0; i < store->n; i++) {
        if (!toml_append(&text, &store->pairs[i], err))
            return error_wrap(err, "%s", store->path);
    }

    bool ok = directory_make(store->directory, 0700, err) &&
              file_publish(store->path, buf_str(&text), 0600, err);
    if (text.bytes)
        bytes_wipe(text.bytes, text.len);
    return ok;
}

static bool store_put(struct store *store, const char *key, struct str value, struct error *err)
{
    struct toml_pair *pair = store_find(store, key);

    if (!pair && store->n == TOML_PAIRS_MAX)
        return error_set(err, ERR_TOO_LARGE, "%s is full", store->path);
    if (!pair)
        pair = &store->pairs[store->n++];
    *pair = (struct toml_pair){str_of(key), value};
    return store_save(store, err);
}

bool config_normalise_url(const char *text, struct arena *arena, const char **url,
                          struct error *err)
{
    size_t len = strlen(text);
    bool is_http = strncasecmp(text, "http://", 7) == 0;
    size_t head = is_http ? 7 : 8;

    if (!is_http && strncasecmp(text, "https://", 8) != 0)
        return error_set(err, ERR_INVALID,
                         "%s is no server address: it starts with http:// or https://", text);
    if (strpbrk(text, "?#"))
        return error_set(err, ERR_INVALID, "%s: a server address has no query and no fragment",
                         text);
    while (len > head && text[len - 1] == '/')
        len--;
    if (len == head)
        return error_set(err, ERR_INVALID, "%s names no host", text);

    char *made = arena_text(arena, (struct str){text, len});

    for (size_t i = 0; i < len && (i < head || made[i] != '/'); i++) {
        if (made[i] >= 'A' && made[i] <= 'Z')
            made[i] = (char)(made[i] - 'A' + 'a');
    }
    *url = made;
    return true;
}

bool config_url(const char *flag, struct arena *arena, const char **url, struct error *err)
{
    const char *chosen = flag ? flag : variable("HELMR_API_URL");
    const char *from = flag ? "--api-url" : "HELMR_API_URL";

    if (!chosen) {
        struct store store;
        if (!store_load("config.toml", false, arena, &store, err))
            return false;
        const struct toml_pair *saved = store_find(&store, "default_host");
        chosen = saved ? arena_text(arena, saved->value) : CONFIG_DEFAULT_URL;
        from = store.path;
    }
    return config_normalise_url(chosen, arena, url, err) || error_wrap(err, "%s", from);
}

bool config_login(const char *url, struct secret *token, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct store store;

    *token = keyring_find(url);
    if (secret_is_set(token))
        return true;
    if (!store_load("credentials.toml", true, &arena, &store, err))
        return false;
    struct toml_pair *saved = store_find(&store, url);
    if (saved)
        *token = secret_create(saved->value);
    return true;
}

static bool store_drop(struct store *store, const char *key, struct error *err)
{
    struct toml_pair *saved = store_find(store, key);

    if (!saved)
        return true;
    *saved = store->pairs[--store->n];
    return store_save(store, err);
}

bool config_save_login(const char *url, const struct secret *token, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct store credentials, settings;

    if (!store_load("credentials.toml", true, &arena, &credentials, err) ||
        !store_load("config.toml", false, &arena, &settings, err))
        return false;
    /* Never in both: what is in the keyring is not in a file any more. */
    bool is_saved = keyring_save(url, token)
                        ? store_drop(&credentials, url, err)
                        : store_put(&credentials, url, secret_reveal(token), err);
    return is_saved && store_put(&settings, "default_host", str_of(url), err);
}

bool config_forget_login(const char *url, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct store store;

    keyring_forget(url);
    return store_load("credentials.toml", true, &arena, &store, err) &&
           store_drop(&store, url, err);
}
