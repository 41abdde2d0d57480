#include "server/keys.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "base/test.h"

/* 32 bytes of 'k' in base64. */
#define MASTER "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="

static bool load(const char *master, struct keys *keys, struct error *err)
{
    AUTO(secret_finish) struct secret key = secret_create(str_of(master));
    AUTO(secret_finish) struct secret token = secret_create(STR("a token of 24 characters"));
    const struct secret unset = {0};
    const struct key_sources sources = {NULL, &key, &unset, &token};
    *keys = (struct keys){0};
    return keys_load(&sources, keys, err);
}

TEST(each_purpose_has_its_own_key)
{
    struct error err;
    AUTO(keys_finish) struct keys keys;
    CHECK(load(MASTER, &keys, &err));
    for (size_t i = 0; i < KEY_COUNT; i++) {
        CHECK(strlen(keys.ids[i]) == KEY_ID_TEXT - 1);
        for (size_t j = i + 1; j < KEY_COUNT; j++) {
            CHECK(strcmp(keys.ids[i], keys.ids[j]) != 0);
            CHECK(!secret_equals(&keys.subkeys[i], secret_reveal(&keys.subkeys[j])));
        }
    }
}

TEST(a_subkey_is_the_keyed_hash_of_its_context)
{
    struct error err;
    AUTO(keys_finish) struct keys keys;
    CHECK(load(MASTER, &keys, &err));
    char master[KEY_LEN];
    memset(master, 'k', sizeof master);
    struct blake2b state;
    uint8_t want[BLAKE2B_LEN];
    blake2b_init(&state, (struct str){master, sizeof master});
    blake2b_update(&state, STR("helmr key auth"));
    blake2b_final(&state, want);
    CHECK(secret_equals(&keys.subkeys[KEY_AUTH], (struct str){(const char *)want, sizeof want}));
}

TEST(a_master_key_of_another_length_is_refused)
{
    struct error err;
    AUTO(keys_finish) struct keys keys;
    CHECK(!load("a2tr", &keys, &err));
    CHECK(strstr(err.text, "HELMR_MASTER_KEY"));
    CHECK(!load("not base64", &keys, &err));
}

TEST(a_sealed_value_opens_only_for_what_it_was_sealed_for)
{
    struct error err;
    AUTO(keys_finish) struct keys keys;
    CHECK(load(MASTER, &keys, &err));
    AUTO(buf_finish) struct buf sealed = {.max = 1024}, plain = {.max = 1024};
    CHECK(keys_seal(&keys, KEY_SECRET, STR("row 1"), STR("value"), &sealed, &err));
    CHECK(!keys_open(&keys, KEY_SECRET, STR("row 2"), buf_str(&sealed), &plain, &err));
    CHECK(!keys_open(&keys, KEY_STORE, STR("row 1"), buf_str(&sealed), &plain, &err));
    CHECK(keys_open(&keys, KEY_SECRET, STR("row 1"), buf_str(&sealed), &plain, &err));
    CHECK(str_equal(buf_str(&plain), STR("value")));
    for (size_t i = 0; i < sealed.len; i++) {
        sealed.bytes[i] ^= 1;
        CHECK(!keys_open(&keys, KEY_SECRET, STR("row 1"), buf_str(&sealed), &plain, &err));
        sealed.bytes[i] ^= 1;
    }
    CHECK(!keys_open(&keys, KEY_SECRET, STR("row 1"), STR("short"), &plain, &err));
}

TEST(tokens_are_fresh_and_their_hashes_keyed)
{
    struct error err;
    AUTO(keys_finish) struct keys keys;
    CHECK(load(MASTER, &keys, &err));
    char one[TOKEN_TEXT], two[TOKEN_TEXT];
    token_make("hlmr_sk_", one);
    token_make("hlmr_sk_", two);
    CHECK(strlen(one) == 8 + TOKEN_SECRET && strcmp(one, two) != 0);
    uint8_t first[BLAKE2B_LEN], again[BLAKE2B_LEN], other[BLAKE2B_LEN];
    keys_hash_token(&keys, str_of(one), first);
    keys_hash_token(&keys, str_of(one), again);
    keys_hash_token(&keys, str_of(two), other);
    CHECK(memcmp(first, again, sizeof first) == 0 && memcmp(first, other, sizeof first) != 0);
}

TEST(seeding_makes_private_files_and_never_replaces_them)
{
    struct error err;
    char directory[] = "/tmp/helmr-keys-XXXXXX", path[64];
    CHECK(mkdtemp(directory));
    CHECK(server_seed_keys(directory, &err));
    AUTO_FREE char *before = NULL, *after = NULL;
    snprintf(path, sizeof path, "%s/keys/master", directory);
    CHECK(file_read(path, 256, &before, &err));
    struct stat status;
    CHECK(stat(path, &status) == 0 && (status.st_mode & 0777) == 0600);
    CHECK(server_seed_keys(directory, &err));
    CHECK(file_read(path, 256, &after, &err));
    CHECK_STR(after, before);

    AUTO(keys_finish) struct keys keys = {0};
    const struct secret unset = {0};
    const struct key_sources sources = {directory, &unset, &unset, &unset};
    CHECK(keys_load(&sources, &keys, &err));
    CHECK(secret_is_set(&keys.bootstrap));
    static const char *const names[] = {"master", "bootstrap", "checkpoint", ""};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/keys/%s", directory, names[i]);
        CHECK(remove(path) == 0);
    }
    CHECK(rmdir(directory) == 0);
}

TEST_MAIN()
