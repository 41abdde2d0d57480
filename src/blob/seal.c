#include "blob/seal.h"

#include <sodium.h>

#include "base/encode.h"
#include "base/time.h"
#include "blob/bytes.h"

enum { VERSION = 1, CODEC_ZSTD = 1, SALT_LEN = 32, AAD_LEN = 32 + ID_BYTES + 8 + 1 + 4 };

/* Offsets in the header. */
enum {
    AT_VERSION = 8,
    AT_DOMAIN = 10,
    AT_CLASS = 11,
    AT_CODEC = 12,
    AT_KEY_ID = 16,
    AT_OBJECT_ID = 24,
    AT_SALT = 40,
    AT_CREATED = 72,
    AT_RECORD_HINT = 80,
    AT_ZERO = 84,
};

static const uint8_t magic[8] = "HLMRSO01";

_Static_assert(SEAL_KEY_LEN == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "one key per object");
_Static_assert(SEAL_TAG_LEN == crypto_aead_xchacha20poly1305_ietf_ABYTES, "the tag as written");

void seal_key_init(struct seal_key *key, const uint8_t bytes[SEAL_KEY_LEN])
{
    uint8_t digest[32];

    /* Every use of the store begins with a key. It also chooses the code for this processor. */
    if (sodium_init() < 0)
        abort();
    memcpy(key->bytes, bytes, SEAL_KEY_LEN);
    crypto_generichash(digest, sizeof digest, bytes, SEAL_KEY_LEN, NULL, 0);
    memcpy(key->id, digest, SEAL_KEY_ID_LEN);
}

void seal_key_finish(struct seal_key *key)
{
    sodium_memzero(key, sizeof *key);
}

void seal_key_id_text(const struct seal_key *key, char text[SEAL_KEY_ID_TEXT])
{
    hex_encode((struct str){(const char *)key->id, SEAL_KEY_ID_LEN}, text);
}

static void derive(struct seal_object *object, const uint8_t header[SEAL_HEADER_LEN])
{
    static const char context[] = "helmr object";
    crypto_generichash_state state;

    crypto_generichash_init(&state, object->domain->bytes, SEAL_KEY_LEN, SEAL_KEY_LEN);
    crypto_generichash_update(&state, (const uint8_t *)context, sizeof context - 1);
    crypto_generichash_update(&state, header, SEAL_HEADER_LEN);
    crypto_generichash_final(&state, object->key, SEAL_KEY_LEN);
    sodium_memzero(&state, sizeof state);

    crypto_generichash(object->bound, 32, header, SEAL_HEADER_LEN, NULL, 0);
    memcpy(object->bound + 32, header + AT_OBJECT_ID, ID_BYTES);
}

bool seal_object_make(struct seal_object *object, const struct seal_keys *keys,
                      enum seal_class class, uint32_t record_hint, uint8_t header[SEAL_HEADER_LEN],
                      struct error *err)
{
    if (keys->n == 0)
        return error_set(err, ERR_KEY_MISSING, "there is no key to seal with");

    *object = (struct seal_object){.class = class,
                                   .created_ms = (uint64_t)time_now_ms(),
                                   .record_hint = record_hint,
                                   .domain = &keys->keys[0]};
    id_make(object->id);

    memset(header, 0, SEAL_HEADER_LEN);
    memcpy(header, magic, sizeof magic);
    header[AT_VERSION] = VERSION;
    header[AT_DOMAIN] = (uint8_t)keys->domain;
    header[AT_CLASS] = (uint8_t)class;
    header[AT_CODEC] = CODEC_ZSTD;
    memcpy(header + AT_KEY_ID, object->domain->id, SEAL_KEY_ID_LEN);
    id_to_bytes(object->id, header + AT_OBJECT_ID);
    random_bytes(header + AT_SALT, SALT_LEN);
    put_u64(header + AT_CREATED, object->created_ms);
    put_u32(header + AT_RECORD_HINT, record_hint);
    derive(object, header);
    return true;
}

static const struct seal_key *find_key(const struct seal_keys *keys, const uint8_t *id)
{
    for (size_t i = 0; i < keys->n; i++) {
        if (memcmp(keys->keys[i].id, id, SEAL_KEY_ID_LEN) == 0)
            return &keys->keys[i];
    }
    return NULL;
}

static bool is_header(const uint8_t header[SEAL_HEADER_LEN])
{
    return memcmp(header, magic, sizeof magic) == 0 && header[AT_VERSION] == VERSION &&
           header[AT_VERSION + 1] == 0 && header[AT_CLASS] >= SEAL_PACK &&
           header[AT_CLASS] <= SEAL_BLOB && header[AT_CODEC] == CODEC_ZSTD &&
           sodium_is_zero(header + AT_CODEC + 1, AT_KEY_ID - AT_CODEC - 1) &&
           sodium_is_zero(header + AT_ZERO, SEAL_HEADER_LEN - AT_ZERO) &&
           get_u32(header + AT_RECORD_HINT) <= SEAL_RAW_MAX;
}

bool seal_header_read(const uint8_t header[SEAL_HEADER_LEN], struct seal_header *said,
                      struct error *err)
{
    if (!is_header(header) ||
        (header[AT_DOMAIN] != SEAL_STORE && header[AT_DOMAIN] != SEAL_CHECKPOINT))
        return error_set(err, ERR_DAMAGED, "this is no sealed object");
    *said = (struct seal_header){.domain = header[AT_DOMAIN], .class = header[AT_CLASS]};
    hex_encode((struct str){(const char *)header + AT_KEY_ID, SEAL_KEY_ID_LEN}, said->key_id);
    return true;
}

bool seal_object_open(struct seal_object *object, const struct seal_keys *keys,
                      const uint8_t header[SEAL_HEADER_LEN], struct error *err)
{
    if (!is_header(header))
        return error_set(err, ERR_DAMAGED, "this is no sealed object");
    if (header[AT_DOMAIN] != keys->domain)
        return error_set(err, ERR_DAMAGED, "the object is of another domain");

    struct seal_object opened = {.class = header[AT_CLASS],
                                 .created_ms = get_u64(header + AT_CREATED),
                                 .record_hint = get_u32(header + AT_RECORD_HINT),
                                 .domain = find_key(keys, header + AT_KEY_ID)};
    id_from_bytes(header + AT_OBJECT_ID, opened.id);
    if (!opened.domain) {
        char id[SEAL_KEY_ID_TEXT];
        hex_encode((struct str){(const char *)header + AT_KEY_ID, SEAL_KEY_ID_LEN}, id);
        return error_set(err, ERR_KEY_MISSING,
                         "the object %s is under key id %s, which is not configured", opened.id,
                         id);
    }
    derive(&opened, header);
    *object = opened;
    seal_object_finish(&opened);
    return true;
}

void seal_object_finish(struct seal_object *object)
{
    sodium_memzero(object->key, sizeof object->key);
}

static void frame_of(const struct seal_object *object, uint64_t number,
                     const struct seal_head *head, uint8_t nonce[24], uint8_t aad[AAD_LEN])
{
    memset(nonce, 0, 24);
    put_u64(nonce, number);
    memcpy(aad, object->bound, sizeof object->bound);
    put_u64(aad + sizeof object->bound, number);
    aad[sizeof object->bound + 8] = head->flags;
    put_u32(aad + sizeof object->bound + 9, head->raw);
}

void seal_record(const struct seal_object *object, uint64_t number, const struct seal_head *head,
                 struct str plain, uint8_t *sealed)
{
    uint8_t nonce[24], aad[AAD_LEN];

    frame_of(object, number, head, nonce, aad);
    crypto_aead_xchacha20poly1305_ietf_encrypt(sealed, NULL, (const uint8_t *)plain.ptr, plain.len,
                                               aad, sizeof aad, NULL, nonce, object->key);
}

bool unseal_record(const struct seal_object *object, uint64_t number, const struct seal_head *head,
                   const uint8_t *sealed, uint8_t *plain, struct error *err)
{
    uint8_t nonce[24], aad[AAD_LEN];

    frame_of(object, number, head, nonce, aad);
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(plain, NULL, NULL, sealed, head->sealed, aad,
                                                   sizeof aad, nonce, object->key) != 0)
        return error_set(err, ERR_DAMAGED, "the object %s is damaged: record %llu does not verify",
                         object->id, (unsigned long long)number);
    return true;
}

void seal_head_encode(const struct seal_head *head, uint8_t bytes[SEAL_HEAD_LEN])
{
    put_u32(bytes, head->sealed);
    put_u32(bytes + 4, head->raw);
    bytes[8] = head->flags;
}

bool seal_head_decode(const uint8_t bytes[SEAL_HEAD_LEN], struct seal_head *head, struct error *err)
{
    struct seal_head read = {get_u32(bytes), get_u32(bytes + 4), bytes[8]};
    const unsigned known = SEAL_LAST | SEAL_STORED | SEAL_INDEX;
    uint32_t plain = read.sealed - SEAL_TAG_LEN;
    bool is_stored = read.flags & SEAL_STORED;

    if (read.raw > SEAL_RAW_MAX || read.sealed < SEAL_TAG_LEN || (read.flags & ~known) ||
        (is_stored ? plain != read.raw : plain >= read.raw))
        return error_set(err, ERR_DAMAGED, "the object is damaged: a record cannot be so long");
    *head = read;
    return true;
}
