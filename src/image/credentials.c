#include "image/credentials.h"

#include "base/encode.h"
#include "base/file.h"
#include "base/json.h"
#include "base/own.h"

enum { FILE_MAX = 1 << 20, VALUE_MAX = 16 << 10 };

struct document {
    struct json_map entries, helpers;
    struct str store;
};

struct entry {
    struct str auth, user, password, identity;
};

static const struct json_field document_fields[] = {
    {"auths", JSON_MAP, offsetof(struct document, entries), OPTIONAL, .max = 4096, .is_raw = true},
    {"credHelpers", JSON_MAP, offsetof(struct document, helpers), OPTIONAL, .max = 4096},
    {"credsStore", JSON_TEXT, offsetof(struct document, store), OPTIONAL, .max = 256},
    {0},
};

static const struct json_field entry_fields[] = {
    {"auth", JSON_TEXT, offsetof(struct entry, auth), OPTIONAL, .max = VALUE_MAX},
    {"username", JSON_TEXT, offsetof(struct entry, user), OPTIONAL, .max = VALUE_MAX},
    {"password", JSON_TEXT, offsetof(struct entry, password), OPTIONAL, .max = VALUE_MAX},
    {"identitytoken", JSON_TEXT, offsetof(struct entry, identity), OPTIONAL, .max = VALUE_MAX},
    {0},
};

void credential_finish(struct credential *credential)
{
    secret_finish(&credential->basic);
    secret_finish(&credential->identity);
}

/* Arena memory is ours to write; it is freed right after. */
static void wipe(struct str text)
{
    if (text.len)
        bytes_wipe((char *)text.ptr, text.len);
}

static bool starts_with(struct str text, struct str start)
{
    return text.len >= start.len && memcmp(text.ptr, start.ptr, start.len) == 0;
}

static struct str without(struct str text, struct str start)
{
    if (starts_with(text, start))
        return (struct str){text.ptr + start.len, text.len - start.len};
    return text;
}

static bool is_hub(struct str host)
{
    return str_equal_nocase(host, STR("docker.io")) ||
           str_equal_nocase(host, STR("index.docker.io")) ||
           str_equal_nocase(host, STR("registry-1.docker.io"));
}

/* How well a key fits, 0 when not at all. Keys are hosts, perhaps with a repository's beginning;
 * old ones are addresses such as https://index.docker.io/v1/. */
static size_t fit_of(struct str key, struct str host, struct str repository)
{
    struct str path = without(without(key, STR("https://")), STR("http://")), name;

    if (!str_split(&path, '/', &name))
        return 0;
    if (!str_equal_nocase(name, host) && !(is_hub(name) && is_hub(host)))
        return 0;
    path = str_trim(path, STR("/"));
    if (path.len == 0 || str_equal(path, STR("v1")) || str_equal(path, STR("v2")) ||
        str_equal(path, STR("v1/users")))
        return 1;
    if (!starts_with(repository, path) ||
        (repository.len > path.len && repository.ptr[path.len] != '/'))
        return 0;
    return 1 + path.len;
}

static const struct json_pair *best_of(const struct json_map *map, struct str host,
                                       struct str repository)
{
    const struct json_pair *best = NULL;
    size_t best_fit = 0;

    for (size_t i = 0; i < map->n; i++) {
        size_t fit = fit_of(map->pairs[i].name, host, repository);
        if (fit > best_fit) {
            best = &map->pairs[i];
            best_fit = fit;
        }
    }
    return best;
}

static bool take_auth(struct str auth, struct credential *credential, struct error *err)
{
    size_t len = base64_decoded_max(auth.len);
    AUTO_FREE char *bytes = alloc(len);

    bool ok = base64_decode(auth, bytes, &len) && memchr(bytes, ':', len);
    if (ok)
        credential->basic = secret_create((struct str){bytes, len});
    bytes_wipe(bytes, base64_decoded_max(auth.len));
    return ok || error_set(err, ERR_INVALID,
                           "the registry credentials have an \"auth\" that is no base64 of "
                           "user:password");
}

static void take_pair(const struct entry *entry, struct credential *credential)
{
    size_t len = entry->user.len + 1 + entry->password.len;
    AUTO_FREE char *bytes = alloc(len);

    memcpy(bytes, entry->user.ptr, entry->user.len);
    bytes[entry->user.len] = ':';
    if (entry->password.len)
        memcpy(bytes + entry->user.len + 1, entry->password.ptr, entry->password.len);
    credential->basic = secret_create((struct str){bytes, len});
    bytes_wipe(bytes, len);
}

static bool take_entry(struct str raw, struct arena *arena, struct credential *credential,
                       struct error *err)
{
    struct entry entry;
    struct error why;
    bool ok = true;

    if (!json_read_loose(raw, entry_fields, &entry, sizeof entry, arena, &why))
        return error_set(err, ERR_INVALID, "an entry of the registry credentials is malformed");
    if (entry.identity.len)
        credential->identity = secret_create(entry.identity);
    else if (entry.user.len)
        take_pair(&entry, credential);
    else if (entry.auth.len)
        ok = take_auth(entry.auth, credential, err);
    wipe(entry.auth);
    wipe(entry.password);
    wipe(entry.identity);
    return ok;
}

static void name_helper(const struct document *document, struct str host, struct str repository,
                        struct credential *credential)
{
    const struct json_pair *pair = best_of(&document->helpers, host, repository);
    struct str name = pair ? pair->value : document->store;

    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] <= ' ' || name.ptr[i] > '~')
            return;
    if (name.len)
        (void)snprintf(credential->helper, sizeof credential->helper, "docker-credential-%.*s",
                       name.len > 40 ? 40 : (int)name.len, name.ptr);
}

bool credentials_read(struct str text, struct str host, struct str repository,
                      struct credential *credential, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(credential_finish) struct credential found = {0};
    struct document document;
    struct error why;
    bool ok = true;

    if (!json_read_loose(text, document_fields, &document, sizeof document, &arena, &why))
        return error_set(err, ERR_INVALID, "the registry credentials are no JSON in Docker's form");
    const struct json_pair *pair = best_of(&document.entries, host, repository);
    if (pair)
        ok = take_entry(pair->value, &arena, &found, err);
    for (size_t i = 0; i < document.entries.n; i++)
        wipe(document.entries.pairs[i].value);
    if (!ok)
        return false;
    if (!secret_is_set(&found.basic) && !secret_is_set(&found.identity))
        name_helper(&document, host, repository, &found);
    *credential = found;
    found = (struct credential){0};
    return true;
}

bool credentials_find(const char *path, const char *host, const char *repository,
                      struct credential *credential, struct error *err)
{
    AUTO_FREE char *text = NULL;

    if (!file_read(path, FILE_MAX, &text, err))
        return error_wrap(err, "reading the registry credentials");
    bool ok = credentials_read(str_of(text), str_of(host), str_of(repository), credential, err);
    bytes_wipe(text, strlen(text));
    return ok || error_wrap(err, "%s", path);
}
