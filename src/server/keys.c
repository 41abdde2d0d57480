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

const char *key_context_name(enum key_context context)
{
    return context_names[context];
}

static void derive(struct str master, struct secret subkeys[KEY_COUNT],
                   char ids[KEY_COUNT][KEY_ID_TEXT])
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        struct blake2b state;
        uint8_t subkey[BLAKE2B_LEN], id[BLAKE2B_LEN];
        blake2b_init(&state, master);
        blake2b_update(&state, STR("helmr key "));
        blake2b_update(&state, str_of(context_names[i]));
        blake2b_final(&state, subkey);
        subkeys[i] = secret_create(bytes_of(subkey, sizeof subkey));

        blake2b_init(&state, (struct str){0});
        blake2b_update(&state, bytes_of(subkey, sizeof subkey));
        blake2b_final(&state, id);
        hex_encode(bytes_of(id, (KEY_ID_TEXT - 1) / 2), ids[i]);
        bytes_wipe(subkey, sizeof subkey);
        bytes_wipe(&state, sizeof state);
    }
}

static struct str trimmed(struct str text)
{
    return str_trim(text, STR(" \t\r\n"));
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

/* Derives from base64 text; what the text was is forgotten. */
static bool derive_text(struct str text, const char *variable, struct secret subkeys[KEY_COUNT],
                        char ids[KEY_COUNT][KEY_ID_TEXT], struct error *err)
{
    uint8_t key[KEY_LEN];
    size_t len = sizeof key;
    if (!base64_decode(trimmed(text), key, &len) || len != sizeof key)
        return error_set(err, ERR_INVALID, "%s must be base64 of 32 bytes", variable);
    derive(bytes_of(key, sizeof key), subkeys, ids);
    bytes_wipe(key, sizeof key);
    return true;
}

static bool load_former(const struct key_sources *sources, struct keys *keys, struct error *err)
{
    AUTO(secret_finish) struct secret text = {0};
    if (secret_is_set(sources->master_former)) {
        text = secret_create(secret_reveal(sources->master_former));
    } else if (!sources->data_dir) {
        return true;
    } else if (!read_key_file(sources->data_dir, "master.old", &text, err)) {
        return err->sys == ENOENT || error_wrap(err, "keys/master.old cannot be read");
    }

    struct str list = secret_reveal(&text), one;
    while (str_split(&list, ',', &one)) {
        if (trimmed(one).len == 0)
            continue;
        if (keys->n_former == KEYS_FORMER_MAX)
            return error_set(err, ERR_INVALID, "HELMR_MASTER_KEY_OLD names more than %d keys",
                             KEYS_FORMER_MAX);
        struct former_key *former = &keys->former[keys->n_former];
        if (!derive_text(one, "each of HELMR_MASTER_KEY_OLD", former->subkeys, former->ids, err))
            return false;
        keys->n_former++;
    }
    return true;
}

bool keys_load_master(const struct key_sources *sources, struct keys *keys, struct error *err)
{
    AUTO(secret_finish) struct secret text = {0};
    *keys = (struct keys){0};
    if (sodium_init() < 0)
        return error_set(err, ERR_INTERNAL, "libsodium cannot start");
    if (load_value(sources->data_dir, "master", "HELMR_MASTER_KEY", sources->master, &text, err) &&
        derive_text(secret_reveal(&text), "HELMR_MASTER_KEY", keys->subkeys, keys->ids, err) &&
        load_former(sources, keys, err))
        return true;
    keys_finish(keys);
    return false;
}

bool keys_load(const struct key_sources *sources, struct keys *keys, struct error *err)
{
    AUTO(secret_finish) struct secret token = {0};
    if (!load_value(sources->data_dir, "bootstrap", "HELMR_WORKER_BOOTSTRAP_TOKEN",
                    sources->bootstrap, &token, err))
        return false;
    struct str revealed = secret_reveal(&token);
    if (revealed.len < 16 || revealed.len > 128)
        return error_set(err, ERR_INVALID,
                         "HELMR_WORKER_BOOTSTRAP_TOKEN must have 16 to 128 bytes");
    if (!keys_load_master(sources, keys, err))
        return false;
    keys->bootstrap = token;
    token = (struct secret){0};
    return true;
}

void keys_finish(struct keys *keys)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        secret_finish(&keys->subkeys[i]);
        for (size_t j = 0; j < keys->n_former; j++)
            secret_finish(&keys->former[j].subkeys[i]);
    }
    keys->n_former = 0;
    secret_finish(&keys->bootstrap);
}

size_t keys_count(const struct keys *keys)
{
    return 1 + keys->n_former;
}

const char *keys_id(const struct keys *keys, enum key_context context, size_t index)
{
    return index == 0 ? keys->ids[context] : keys->former[index - 1].ids[context];
}

struct str keys_subkey(const struct keys *keys, enum key_context context, size_t index)
{
    return secret_reveal(index == 0 ? &keys->subkeys[context]
                                    : &keys->former[index - 1].subkeys[context]);
}

bool keys_ring(const struct keys *keys, struct key_ring *ring, struct error *err)
{
    key_ring_init(ring, SEAL_STORE);
    for (size_t i = 0; i < keys_count(keys); i++)
        if (!key_ring_add(ring, keys_subkey(keys, KEY_STORE, i), err))
            return false;
    return true;
}

bool keys_find(const struct keys *keys, enum key_context context, struct str id, size_t *index)
{
    for (size_t i = 0; i < keys_count(keys); i++) {
        if (str_equal(id, str_of(keys_id(keys, context, i)))) {
            *index = i;
            return true;
        }
    }
    return false;
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
    blake2b_list(keys_subkey(keys, context, 0), pieces, n, tag);
}

bool keys_tag_is_ours(const struct keys *keys, enum key_context context, const struct str *pieces,
                      size_t n, struct str tag)
{
    bool is_ours = false;
    if (tag.len == 0 || tag.len > BLAKE2B_LEN)
        return false;
    for (size_t i = 0; i < keys_count(keys); i++) {
        uint8_t want[BLAKE2B_LEN];
        blake2b_list(keys_subkey(keys, context, i), pieces, n, want);
        is_ours |= bytes_equal_constant_time(bytes_of(want, tag.len), tag);
    }
    return is_ours;
}

void keys_hash_token(const struct keys *keys, struct str token, uint8_t hash[BLAKE2B_LEN])
{
    keys_hash_token_under(keys, 0, token, hash);
}

void keys_hash_token_under(const struct keys *keys, size_t index, struct str token,
                           uint8_t hash[BLAKE2B_LEN])
{
    blake2b_list(keys_subkey(keys, KEY_AUTH, index), &token, 1, hash);
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

bool bytes_seal(const uint8_t key[KEY_LEN], struct str about, struct str plain, struct buf *sealed,
                struct error *err)
{
    unsigned char nonce[crypto_aead_xchacha20poly1305_ietf_NPUBBYTES];
    size_t room = plain.len + crypto_aead_xchacha20poly1305_ietf_ABYTES;
    AUTO(arena_finish) struct arena scratch = {0};
    unsigned char *out = arena_alloc(&scratch, room);
    unsigned long long out_len = 0;
    random_bytes(nonce, sizeof nonce);
    if (crypto_aead_xchacha20poly1305_ietf_encrypt(out, &out_len, (const unsigned char *)plain.ptr,
                                                   plain.len, (const unsigned char *)about.ptr,
                                                   about.len, NULL, nonce, key) != 0)
        return error_set(err, ERR_INTERNAL, "sealing failed");
    return buf_append(sealed, bytes_of(nonce, sizeof nonce), err) &&
           buf_append(sealed, bytes_of(out, (size_t)out_len), err);
}

bool bytes_open(const uint8_t key[KEY_LEN], struct str about, struct str sealed, struct buf *plain,
                struct error *err)
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
                                                   nonce, key) != 0)
        return error_set(err, ERR_INTERNAL, "a sealed value does not open with this master key");
    bool ok = buf_append(plain, bytes_of(out, (size_t)out_len), err);
    bytes_wipe(out, (size_t)out_len);
    return ok;
}

static const uint8_t *key_bytes(const struct keys *keys, enum key_context context, size_t index)
{
    return (const uint8_t *)keys_subkey(keys, context, index).ptr;
}

bool keys_seal(const struct keys *keys, enum key_context context, struct str about,
               struct str plain, struct buf *sealed, struct error *err)
{
    return bytes_seal(key_bytes(keys, context, 0), about, plain, sealed, err);
}

bool keys_open(const struct keys *keys, enum key_context context, struct str about,
               struct str sealed, struct buf *plain, struct error *err)
{
    for (size_t i = 0; i < keys_count(keys); i++)
        if (bytes_open(key_bytes(keys, context, i), about, sealed, plain, err))
            return true;
    return false;
}
