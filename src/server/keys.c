#include "server/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/encode.h"
#include "base/file.h"
#include "base/id.h"
#include "base/own.h"

enum { KEY_FILE_MAX = 4096, PATH_TEXT = 4096 };

static const char *const context_names[KEY_COUNT] = {
    [KEY_AUTH] = "auth",     [KEY_SECRET] = "secret", [KEY_STORE] = "store",
    [KEY_WORKER] = "worker", [KEY_CURSOR] = "cursor", [KEY_AUDIT] = "audit",
};

static struct str bytes_of(const void *bytes, size_t len)
{
    return (struct str){bytes, len};
}

static void derive(struct keys *keys, struct str master)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        struct blake2b state;
        uint8_t subkey[BLAKE2B_LEN], id[BLAKE2B_LEN];
        blake2b_init(&state, master);
        blake2b_update(&state, STR("helmr key "));
        blake2b_update(&state, str_of(context_names[i]));
        blake2b_final(&state, subkey);
        keys->subkeys[i] = secret_create(bytes_of(subkey, sizeof subkey));

        blake2b_init(&state, (struct str){0});
        blake2b_update(&state, bytes_of(subkey, sizeof subkey));
        blake2b_final(&state, id);
        hex_encode(bytes_of(id, (KEY_ID_TEXT - 1) / 2), keys->ids[i]);
        bytes_wipe(subkey, sizeof subkey);
        bytes_wipe(&state, sizeof state);
    }
}

static struct str trimmed(struct str text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.ptr[text.len - 1]))
        text.len--;
    return text;
}

static bool read_key_file(const char *data_dir, const char *name, struct secret *value,
                          struct error *err)
{
    char path[PATH_TEXT];
    snprintf(path, sizeof path, "%s/keys/%s", data_dir, name);
    AUTO_FREE char *text = NULL;
    if (!file_read(path, KEY_FILE_MAX, &text, err))
        return false;
    *value = secret_create(trimmed(str_of(text)));
    bytes_wipe(text, strlen(text));
    return true;
}

static bool load_value(const char *data_dir, const char *name, const char *variable,
                       const struct secret *configured, struct secret *value, struct error *err)
{
    if (secret_is_set(configured)) {
        *value = secret_create(trimmed(secret_reveal(configured)));
        return true;
    }
    if (!data_dir)
        return error_set(err, ERR_INVALID, "%s is not set", variable);
    if (!read_key_file(data_dir, name, value, err))
        return error_wrap(err, "%s is not set and keys/%s cannot be read", variable, name);
    return true;
}

bool keys_load(const char *data_dir, const struct secret *master, const struct secret *bootstrap,
               struct keys *keys, struct error *err)
{
    AUTO(secret_finish) struct secret text = {0};
    AUTO(secret_finish) struct secret token = {0};
    if (!load_value(data_dir, "master", "HELMR_MASTER_KEY", master, &text, err) ||
        !load_value(data_dir, "bootstrap", "HELMR_WORKER_BOOTSTRAP_TOKEN", bootstrap, &token, err))
        return false;

    uint8_t key[KEY_LEN];
    size_t len = sizeof key;
    if (!base64_decode(secret_reveal(&text), key, &len) || len != sizeof key)
        return error_set(err, ERR_INVALID, "HELMR_MASTER_KEY must be base64 of 32 bytes");
    struct str revealed = secret_reveal(&token);
    if (revealed.len < 16 || revealed.len > 128)
        return error_set(err, ERR_INVALID,
                         "HELMR_WORKER_BOOTSTRAP_TOKEN must have 16 to 128 bytes");
    if (sodium_init() < 0)
        return error_set(err, ERR_INTERNAL, "libsodium cannot start");

    derive(keys, bytes_of(key, sizeof key));
    bytes_wipe(key, sizeof key);
    keys->bootstrap = token;
    token = (struct secret){0};
    return true;
}

void keys_finish(struct keys *keys)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        secret_finish(&keys->subkeys[i]);
    secret_finish(&keys->bootstrap);
}

static bool sync_directory(const char *path, struct error *err)
{
    AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        return error_errno(err, "sync %s", path);
    return true;
}

/* linkat never replaces, so of two first starts one wins and both read its key. */
static bool write_new(const char *directory, const char *name, struct str text, struct error *err)
{
    char path[PATH_TEXT], temporary[PATH_TEXT], unique[ID_TEXT];
    id_make(unique);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    snprintf(temporary, sizeof temporary, "%s/.%s", directory, unique);

    AUTO_FD int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "make %s", temporary);
    bool ok = write(fd, text.ptr, text.len) == (ssize_t)text.len && fsync(fd) == 0;
    if (!ok)
        error_errno(err, "write %s", temporary);
    if (ok && link(temporary, path) != 0 && errno != EEXIST)
        ok = error_errno(err, "make %s", path);
    (void)unlink(temporary);
    return ok;
}

static bool seed_key(const char *directory, const char *name, bool is_url_safe, struct error *err)
{
    char path[PATH_TEXT];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (access(path, F_OK) == 0)
        return true;

    uint8_t key[KEY_LEN];
    char text[64] = {0};
    random_bytes(key, sizeof key);
    if (is_url_safe)
        base64url_encode(bytes_of(key, sizeof key), text);
    else
        base64_encode(bytes_of(key, sizeof key), text);
    size_t len = strlen(text);
    text[len++] = '\n';
    bool ok = write_new(directory, name, bytes_of(text, len), err);
    bytes_wipe(key, sizeof key);
    bytes_wipe(text, sizeof text);
    return ok;
}

bool server_seed_keys(const char *data_dir, struct error *err)
{
    char directory[PATH_TEXT];
    snprintf(directory, sizeof directory, "%s/keys", data_dir);
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        return error_errno(err, "make %s", directory);
    return seed_key(directory, "master", false, err) &&
           seed_key(directory, "bootstrap", true, err) &&
           seed_key(directory, "checkpoint", false, err) && sync_directory(directory, err);
}

void keys_tag(const struct keys *keys, enum key_context context, const struct str *pieces, size_t n,
              uint8_t tag[BLAKE2B_LEN])
{
    blake2b_list(secret_reveal(&keys->subkeys[context]), pieces, n, tag);
}

void keys_hash_token(const struct keys *keys, struct str token, uint8_t hash[BLAKE2B_LEN])
{
    keys_tag(keys, KEY_AUTH, &token, 1, hash);
}

void token_make(const char *prefix, char token[TOKEN_TEXT])
{
    uint8_t bytes[KEY_LEN];
    char text[TOKEN_SECRET + 1];
    random_bytes(bytes, sizeof bytes);
    base64url_encode(bytes_of(bytes, sizeof bytes), text);
    snprintf(token, TOKEN_TEXT, "%s%s", prefix, text);
    bytes_wipe(bytes, sizeof bytes);
    bytes_wipe(text, sizeof text);
}

static const unsigned char *key_bytes(const struct keys *keys, enum key_context context)
{
    return (const unsigned char *)secret_reveal(&keys->subkeys[context]).ptr;
}

bool keys_seal(const struct keys *keys, enum key_context context, struct str about,
               struct str plain, struct buf *sealed, struct error *err)
{
    unsigned char nonce[crypto_aead_xchacha20poly1305_ietf_NPUBBYTES];
    size_t room = plain.len + crypto_aead_xchacha20poly1305_ietf_ABYTES;
    AUTO(arena_finish) struct arena scratch = {0};
    unsigned char *out = arena_alloc(&scratch, room);
    unsigned long long out_len = 0;
    random_bytes(nonce, sizeof nonce);
    if (crypto_aead_xchacha20poly1305_ietf_encrypt(out, &out_len, (const unsigned char *)plain.ptr,
                                                   plain.len, (const unsigned char *)about.ptr,
                                                   about.len, NULL, nonce,
                                                   key_bytes(keys, context)) != 0)
        return error_set(err, ERR_INTERNAL, "sealing failed");
    return buf_append(sealed, bytes_of(nonce, sizeof nonce), err) &&
           buf_append(sealed, bytes_of(out, (size_t)out_len), err);
}

bool keys_open(const struct keys *keys, enum key_context context, struct str about,
               struct str sealed, struct buf *plain, struct error *err)
{
    enum { NONCE = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES };
    if (sealed.len < NONCE + crypto_aead_xchacha20poly1305_ietf_ABYTES)
        return error_set(err, ERR_INTERNAL, "a sealed value is cut short");
    const unsigned char *nonce = (const unsigned char *)sealed.ptr;
    AUTO(arena_finish) struct arena scratch = {0};
    unsigned char *out = arena_alloc(&scratch, sealed.len);
    unsigned long long out_len = 0;
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(out, &out_len, NULL, nonce + NONCE,
                                                   sealed.len - NONCE,
                                                   (const unsigned char *)about.ptr, about.len,
                                                   nonce, key_bytes(keys, context)) != 0)
        return error_set(err, ERR_INTERNAL, "a sealed value does not open with this master key");
    bool ok = buf_append(plain, bytes_of(out, (size_t)out_len), err);
    bytes_wipe(out, (size_t)out_len);
    return ok;
}
