#include "server/secret_seal.h"

#include <stdio.h>

#include "base/id.h"
#include "base/own.h"

enum { ABOUT_TEXT = 512, ROOM = 256 };

/* What a sealed value is bound to: moved to another row, it does not open. */
static struct str about(const char *what, const char *environment, struct str name,
                        char text[ABOUT_TEXT])
{
    snprintf(text, ABOUT_TEXT, "%s %s %.*s", what, environment, (int)name.len, name.ptr);
    return str_of(text);
}

void sealed_secret_finish(struct sealed_secret *sealed)
{
    buf_finish(&sealed->value);
    buf_finish(&sealed->wrapped);
}

static bool wrap(const struct keys *keys, const char *environment, struct str name, struct str key,
                 struct buf *wrapped, struct error *err)
{
    char text[ABOUT_TEXT];
    wrapped->max = KEY_LEN + ROOM;
    return keys_seal(keys, KEY_SECRET, about("data key", environment, name, text), key, wrapped,
                     err);
}

bool secret_seal(const struct keys *keys, const char *environment, struct str name,
                 struct str value, struct sealed_secret *sealed, struct error *err)
{
    char text[ABOUT_TEXT];
    uint8_t key[KEY_LEN];
    random_bytes(key, sizeof key);
    sealed->value.max = value.len + ROOM;
    bool ok =
        bytes_seal(key, about("secret", environment, name, text), value, &sealed->value, err) &&
        wrap(keys, environment, name, (struct str){(const char *)key, sizeof key}, &sealed->wrapped,
             err);
    bytes_wipe(key, sizeof key);
    return ok;
}

static bool unwrap(const struct keys *keys, const char *environment, struct str name,
                   const struct stored_secret *stored, uint8_t key[KEY_LEN], struct error *err)
{
    char text[ABOUT_TEXT];
    size_t index;
    AUTO(buf_finish) struct buf plain = {.max = KEY_LEN};
    if (!keys_find(keys, KEY_SECRET, stored->key_id, &index))
        return error_set(err, ERR_INTERNAL, "it is under key id %.*s, which is not configured",
                         (int)stored->key_id.len, stored->key_id.ptr);
    if (!bytes_open((const uint8_t *)keys_subkey(keys, KEY_SECRET, index).ptr,
                    about("data key", environment, name, text), stored->wrapped, &plain, err))
        return false;
    bool ok = plain.len == KEY_LEN || error_set(err, ERR_INTERNAL, "its data key is cut short");
    if (ok)
        memcpy(key, plain.bytes, KEY_LEN);
    bytes_wipe(plain.bytes, plain.len);
    return ok;
}

bool secret_unseal(const struct keys *keys, const char *environment, struct str name,
                   const struct stored_secret *stored, struct buf *value, struct error *err)
{
    char text[ABOUT_TEXT];
    uint8_t key[KEY_LEN];
    if (!unwrap(keys, environment, name, stored, key, err))
        return false;
    bool ok = bytes_open(key, about("secret", environment, name, text), stored->value, value, err);
    bytes_wipe(key, sizeof key);
    return ok;
}

bool secret_rewrap(const struct keys *keys, const char *environment, struct str name,
                   const struct stored_secret *stored, struct buf *wrapped, struct error *err)
{
    uint8_t key[KEY_LEN];
    if (!unwrap(keys, environment, name, stored, key, err))
        return false;
    bool ok =
        wrap(keys, environment, name, (struct str){(const char *)key, sizeof key}, wrapped, err);
    bytes_wipe(key, sizeof key);
    return ok;
}
