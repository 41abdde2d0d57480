/* Key material of the server: one master key, one subkey per purpose, and what is made with them.
 *
 * Tokens are kept only as keyed hashes. Every hash and sealed value is stored beside the id
 * of its key, so that a wrong master key is reported as such. Writers use the current master
 * key; readers try the former ones too.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/secret.h"
#include "blob/key_ring.h"

enum key_context { KEY_AUTH, KEY_SECRET, KEY_STORE, KEY_WORKER, KEY_CURSOR, KEY_AUDIT, KEY_COUNT };

enum {
    KEY_LEN = 32,
    KEY_ID_TEXT = 17,  /* hex of 8 bytes */
    TOKEN_TEXT = 64,   /* prefix and 43 characters */
    TOKEN_SECRET = 43, /* base64url of 32 bytes */
    TOKEN_SHOWN = 8,   /* of them, in lists */
    KEYS_FORMER_MAX = 8,
};

struct keys {
    struct secret subkeys[KEY_COUNT];
    char ids[KEY_COUNT][KEY_ID_TEXT];
    struct former_key {
        struct secret subkeys[KEY_COUNT];
        char ids[KEY_COUNT][KEY_ID_TEXT];
    } former[KEYS_FORMER_MAX];
    size_t n_former;
    struct secret bootstrap; /* admits new workers */
};

struct key_sources {
    const char *data_dir;                        /* NULL: there are no files */
    const struct secret *master, *master_former; /* base64; a comma list of base64 */
    const struct secret *bootstrap;
};

/* From the configured values or, where they are not set, the files of <data_dir>/keys. */
bool keys_load(const struct key_sources *sources, struct keys *keys, struct error *err) MUST_USE;

/* The master keys alone, for commands beside the server. */
bool keys_load_master(const struct key_sources *sources, struct keys *keys,
                      struct error *err) MUST_USE;
void keys_finish(struct keys *keys);

const char *key_context_name(enum key_context context);

/* Keys by number: 0 is the current one, then the former ones. */
size_t keys_count(const struct keys *keys);
const char *keys_id(const struct keys *keys, enum key_context context, size_t index);
struct str keys_subkey(const struct keys *keys, enum key_context context, size_t index);
/* False when none of ours has that id. */
bool keys_find(const struct keys *keys, enum key_context context, struct str id, size_t *index);

/* The keys of the store: what workers are given, and what its objects are sealed under. */
bool keys_ring(const struct keys *keys, struct key_ring *ring, struct error *err) MUST_USE;

/* Makes keys/{master,bootstrap,checkpoint} where they are missing: 0600 in a 0700 directory. */
bool server_seed_keys(const char *data_dir, struct error *err) MUST_USE;

/* The tag of some pieces under a subkey; pieces are told apart by their lengths. */
void keys_tag(const struct keys *keys, enum key_context context, const struct str *pieces, size_t n,
              uint8_t tag[BLAKE2B_LEN]);

/* Whether the tag, which may be cut short, was made under any of our keys. */
bool keys_tag_is_ours(const struct keys *keys, enum key_context context, const struct str *pieces,
                      size_t n, struct str tag);

/* What is stored of a token. */
void keys_hash_token(const struct keys *keys, struct str token, uint8_t hash[BLAKE2B_LEN]);
/* The same under a key by number, for those who look for what a former key has made. */
void keys_hash_token_under(const struct keys *keys, size_t index, struct str token,
                           uint8_t hash[BLAKE2B_LEN]);

/* prefix and 43 base64url characters of fresh randomness. */
void token_make(const char *prefix, char token[TOKEN_TEXT]);

/* Authenticated encryption under a subkey; `about` is bound but not stored. What a former key
 * has sealed opens too. */
bool keys_seal(const struct keys *keys, enum key_context context, struct str about,
               struct str plain, struct buf *sealed, struct error *err) MUST_USE;
bool keys_open(const struct keys *keys, enum key_context context, struct str about,
               struct str sealed, struct buf *plain, struct error *err) MUST_USE;

/* The same under a key of the caller's. */
bool bytes_seal(const uint8_t key[KEY_LEN], struct str about, struct str plain, struct buf *sealed,
                struct error *err) MUST_USE;
bool bytes_open(const uint8_t key[KEY_LEN], struct str about, struct str sealed, struct buf *plain,
                struct error *err) MUST_USE;
