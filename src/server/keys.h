/* Key material of the server: one master key, one subkey per purpose, and what is made with them.
 *
 * Tokens are kept only as keyed hashes. Every hash and sealed value is stored beside the id
 * of its key, so that a wrong master key is reported as such.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/secret.h"

enum key_context { KEY_AUTH, KEY_SECRET, KEY_STORE, KEY_WORKER, KEY_CURSOR, KEY_AUDIT, KEY_COUNT };

enum {
    KEY_LEN = 32,
    KEY_ID_TEXT = 17,  /* hex of 8 bytes */
    TOKEN_TEXT = 64,   /* prefix and 43 characters */
    TOKEN_SECRET = 43, /* base64url of 32 bytes */
    TOKEN_SHOWN = 8,   /* of them, in lists */
};

struct keys {
    struct secret subkeys[KEY_COUNT];
    char ids[KEY_COUNT][KEY_ID_TEXT];
    struct secret bootstrap; /* admits new workers */
};

/* From the configured values or, where they are not set, the files of <data_dir>/keys. */
bool keys_load(const char *data_dir, const struct secret *master, const struct secret *bootstrap,
               struct keys *keys, struct error *err) MUST_USE;
void keys_finish(struct keys *keys);

/* Makes keys/{master,bootstrap,checkpoint} where they are missing: 0600 in a 0700 directory. */
bool server_seed_keys(const char *data_dir, struct error *err) MUST_USE;

/* The tag of some pieces under a subkey; pieces are told apart by their lengths. */
void keys_tag(const struct keys *keys, enum key_context context, const struct str *pieces, size_t n,
              uint8_t tag[BLAKE2B_LEN]);

/* What is stored of a token. */
void keys_hash_token(const struct keys *keys, struct str token, uint8_t hash[BLAKE2B_LEN]);

/* prefix and 43 base64url characters of fresh randomness. */
void token_make(const char *prefix, char token[TOKEN_TEXT]);

/* Authenticated encryption under a subkey; `about` is bound but not stored. */
bool keys_seal(const struct keys *keys, enum key_context context, struct str about,
               struct str plain, struct buf *sealed, struct error *err) MUST_USE;
bool keys_open(const struct keys *keys, enum key_context context, struct str about,
               struct str sealed, struct buf *plain, struct error *err) MUST_USE;
