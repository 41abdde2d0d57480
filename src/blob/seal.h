/* The format of sealed objects: every file of the store is one. A clear header of 96 bytes, then
 * records of at most 1 MiB, each compressed where that helps and under XChaCha20-Poly1305.
 *
 * The object key is derived from the domain key and the whole header, whose salt is fresh: no two
 * objects share a key, so a record's number is its nonce. What is authenticated with a record ties
 * it to its object, its place, its flags and its length.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/id.h"

enum seal_domain { SEAL_NO_DOMAIN, SEAL_STORE = 1, SEAL_CHECKPOINT = 2 };
enum seal_class { SEAL_NO_CLASS, SEAL_PACK = 1, SEAL_MANIFEST = 2, SEAL_BLOB = 3 };
enum seal_flag { SEAL_LAST = 1, SEAL_STORED = 2, SEAL_INDEX = 4 };

enum {
    SEAL_KEY_LEN = 32,
    SEAL_KEY_ID_LEN = 8,
    SEAL_KEY_ID_TEXT = 2 * SEAL_KEY_ID_LEN + 1,
    SEAL_HEADER_LEN = 96,
    SEAL_HEAD_LEN = 9, /* of a record */
    SEAL_TAG_LEN = 16,
    SEAL_RAW_MAX = 1 << 20,
    SEAL_TRAILER_LEN = 24, /* clear, after the last record of a pack */
};

struct seal_key {
    uint8_t bytes[SEAL_KEY_LEN];
    uint8_t id[SEAL_KEY_ID_LEN];
};

/* The keys of one domain: readers try all, writers use the first. */
struct seal_keys {
    enum seal_domain domain;
    const struct seal_key *keys;
    size_t n;
};

/* One object, its key at hand. */
struct seal_object {
    enum seal_class class;
    char id[ID_TEXT];
    uint64_t created_ms;
    uint32_t record_hint;          /* raw bytes of a full record */
    const struct seal_key *domain; /* borrowed: the domain key it is under */
    uint8_t key[SEAL_KEY_LEN];     /* wiped by seal_object_finish */
    uint8_t bound[32 + ID_BYTES];  /* digest of the header, object id */
};

struct seal_head {
    uint32_t sealed, raw;
    uint8_t flags;
};

/* What a header says of itself, which no key has confirmed. */
struct seal_header {
    enum seal_domain domain;
    enum seal_class class;
    char key_id[SEAL_KEY_ID_TEXT];
};

/* ERR_DAMAGED when it is none. */
bool seal_header_read(const uint8_t header[SEAL_HEADER_LEN], struct seal_header *said,
                      struct error *err) MUST_USE;

void seal_key_init(struct seal_key *key, const uint8_t bytes[SEAL_KEY_LEN]);
void seal_key_finish(struct seal_key *key);
void seal_key_id_text(const struct seal_key *key, char text[SEAL_KEY_ID_TEXT]);

/* A new object with a fresh id and salt, and its header. */
bool seal_object_make(struct seal_object *object, const struct seal_keys *keys,
                      enum seal_class class, uint32_t record_hint, uint8_t header[SEAL_HEADER_LEN],
                      struct error *err) MUST_USE;

/* From a header somebody else wrote. ERR_KEY_MISSING when none of the keys has its key id,
 * ERR_DAMAGED when it is no header of this domain. */
bool seal_object_open(struct seal_object *object, const struct seal_keys *keys,
                      const uint8_t header[SEAL_HEADER_LEN], struct error *err) MUST_USE;
void seal_object_finish(struct seal_object *object);

/* `sealed` has room for plain.len + SEAL_TAG_LEN bytes. */
void seal_record(const struct seal_object *object, uint64_t number, const struct seal_head *head,
                 struct str plain, uint8_t *sealed);

/* Into `plain`, of sealed - SEAL_TAG_LEN bytes. ERR_DAMAGED unless it is that record. */
bool unseal_record(const struct seal_object *object, uint64_t number, const struct seal_head *head,
                   const uint8_t *sealed, uint8_t *plain, struct error *err) MUST_USE;

void seal_head_encode(const struct seal_head *head, uint8_t bytes[SEAL_HEAD_LEN]);
/* ERR_DAMAGED unless every length is one a writer could have written. */
bool seal_head_decode(const uint8_t bytes[SEAL_HEAD_LEN], struct seal_head *head,
                      struct error *err) MUST_USE;
