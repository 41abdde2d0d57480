#include "blob/manifest.h"

#include "base/test.h"
#include "blob/testing.h"

static const char pack_a[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const char pack_b[] = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

static char packs[2][SHA256_HEX];
static struct manifest_chunk chunks[3];
static struct manifest_stream streams[2];
static struct manifest_fact facts[2];

static struct manifest sample(void)
{
    memcpy(packs[0], pack_a, SHA256_HEX);
    memcpy(packs[1], pack_b, SHA256_HEX);
    memset(chunks[0].id, 1, CHUNK_ID_LEN);
    memset(chunks[1].id, 2, CHUNK_ID_LEN);
    chunks[0].pack = 0, chunks[0].len = 100;
    chunks[1].pack = 1, chunks[1].len = 200;
    chunks[2].pack = MANIFEST_ZERO, chunks[2].len = CHUNK_MAX;
    streams[0] = (struct manifest_stream){STR("memory"), 300 + CHUNK_MAX, {0}, chunks, 3};
    streams[1] = (struct manifest_stream){STR("empty"), 0, {0}, chunks, 0};
    facts[0] = (struct manifest_fact){STR("run"), STR("r1")};
    facts[1] = (struct manifest_fact){STR("compat"), STR("a=b, c=d")};
    struct manifest manifest = {.kind = STR("checkpoint"),
                                .packs = (const char(*)[SHA256_HEX])packs,
                                .n_packs = 2,
                                .streams = streams,
                                .n_streams = 2,
                                .facts = facts,
                                .n_facts = 2};
    memcpy(manifest.parent, pack_b, SHA256_HEX);
    return manifest;
}

TEST(a_manifest_comes_back_as_it_was)
{
    AUTO(buf_finish) struct buf body = {.max = MIB(1)};
    AUTO(arena_finish) struct arena arena = {0};
    struct manifest want = sample(), got;
    struct error err;

    CHECK(manifest_encode(&want, &body, &err));
    CHECK(manifest_decode(buf_str(&body), &arena, &got, &err));
    CHECK(str_equal(got.kind, want.kind) && got.n_packs == 2 && got.n_streams == 2);
    CHECK_STR(got.parent, pack_b);
    CHECK_STR(got.packs[0], pack_a);
    const struct manifest_stream *memory = manifest_stream_find(&got, STR("memory"));
    CHECK(memory && memory->len == streams[0].len && memory->n_chunks == 3);
    CHECK(memory->chunks[1].pack == 1 && memory->chunks[1].id[31] == 2);
    CHECK(memory->chunks[2].pack == MANIFEST_ZERO && memory->chunks[2].len == CHUNK_MAX);
    CHECK(manifest_stream_find(&got, STR("empty"))->n_chunks == 0);
    CHECK(!manifest_stream_find(&got, STR("other")));
    CHECK(str_equal(manifest_fact_find(&got, STR("compat"))->value, STR("a=b, c=d")));
    CHECK(got.n_facts == 2 && !manifest_fact_find(&got, STR("x")));
}

TEST(a_manifest_that_is_cut_or_longer_is_refused)
{
    AUTO(buf_finish) struct buf body = {.max = MIB(1)};
    struct manifest want = sample(), got;
    struct error err;

    CHECK(manifest_encode(&want, &body, &err));
    for (size_t len = 0; len < body.len; len++) {
        AUTO(arena_finish) struct arena arena = {0};
        CHECK(!manifest_decode((struct str){body.bytes, len}, &arena, &got, &err));
        CHECK(err.code == ERR_DAMAGED);
    }
    AUTO(arena_finish) struct arena arena = {0};
    CHECK(buf_append(&body, STR("x"), &err));
    CHECK(!manifest_decode(buf_str(&body), &arena, &got, &err) && err.code == ERR_DAMAGED);
}

static bool survives(const struct manifest *manifest)
{
    AUTO(buf_finish) struct buf body = {.max = MIB(1)};
    AUTO(arena_finish) struct arena arena = {0};
    struct manifest got;
    struct error err;

    return manifest_encode(manifest, &body, &err) &&
           manifest_decode(buf_str(&body), &arena, &got, &err);
}

TEST(a_manifest_that_contradicts_itself_is_refused)
{
    struct manifest manifest = sample();

    CHECK(survives(&manifest));
    chunks[1].pack = 2;
    CHECK(!survives(&manifest));
    manifest = sample();
    streams[0].len++;
    CHECK(!survives(&manifest));
    manifest = sample();
    chunks[0].len = CHUNK_MAX + 1;
    streams[0].len += CHUNK_MAX + 1 - 100;
    CHECK(!survives(&manifest));
    manifest = sample();
    facts[0].name = STR("a=b");
    CHECK(!survives(&manifest));
    manifest = sample();
    packs[0][0] = 'x';
    CHECK(!survives(&manifest));
    manifest = sample();
    manifest.parent[0] = '\0';
    CHECK(survives(&manifest));
}

TEST(a_swapped_manifest_is_refused)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(seal_writer_finish) struct seal_writer writer = {0};
    AUTO(buf_finish) struct buf first = {0};
    AUTO(buf_finish) struct buf second = {0};
    AUTO(arena_finish) struct arena arena = {0};
    struct manifest manifest = sample(), got;
    struct seal_facts one, two;
    struct error err;

    CHECK(manifest_write(&manifest, &writer, &keys, test_sink(&first), &one, &err));
    CHECK(manifest_write(&manifest, &writer, &keys, test_sink(&second), &two, &err));
    struct str a = buf_str(&first), b = buf_str(&second);
    CHECK(manifest_read(&keys, seal_source_memory(&a), one.digest, &arena, &got, &err));
    CHECK(got.n_streams == 2);
    CHECK(manifest_read(&keys, seal_source_memory(&b), two.digest, &arena, &got, &err));
    CHECK(!manifest_read(&keys, seal_source_memory(&b), one.digest, &arena, &got, &err));
    CHECK(err.code == ERR_DAMAGED);
    struct seal_keys other = test_keys(1, 1);
    CHECK(!manifest_read(&other, seal_source_memory(&a), one.digest, &arena, &got, &err));
    CHECK(err.code == ERR_KEY_MISSING);
}

TEST_MAIN()
