/* The pool of templates: what is kept, what goes first and what never goes. */
#include "worker/template_pool.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/test.h"

enum { MEBIBYTE = 1 << 20, MINUTE = 60 * 1000 };

static const struct engine machine = {.name = "machine"};

/* A key that is all one byte. */
struct key {
    uint8_t bytes[BLAKE2B_LEN];
};

static struct key key_of(uint8_t number)
{
    struct key key;

    memset(key.bytes, number, sizeof key.bytes);
    return key;
}

/* A template with memory of so many mebibytes; NULL: folders in memory cannot be made here. */
static struct template *make(size_t mib)
{
    const uint8_t nonce[GUEST_NONCE_LEN] = {0};
    struct saved_image image;
    struct error err;

    if (!saved_image_make(&machine, MEBIBYTE, &image, &err))
        return NULL;
    image.memory = memfd_create("template", MFD_CLOEXEC);
    if (image.memory < 0 || fallocate(image.memory, 0, 0, (off_t)MIB(mib)) != 0)
        abort();
    return template_of(&image, nonce);
}

static bool has(struct template_pool *pool, uint8_t number)
{
    struct template *found = template_pool_find(pool, key_of(number).bytes);

    template_drop(found);
    return found;
}

static bool add(struct template_pool *pool, uint8_t number, size_t mib)
{
    return template_pool_claim(pool, key_of(number).bytes, 0) &&
           template_pool_settle(pool, key_of(number).bytes, make(mib), 0);
}

static const char *why_not(void)
{
    struct template *made = make(1);

    template_drop(made);
    return made ? NULL : "no folders in memory can be made here";
}

static struct template_pool *open_pool(size_t mib)
{
    struct template_pool *pool;

    template_pool_create((int64_t)MIB(mib), &pool);
    return pool;
}

static void close_pool(struct template_pool *const *pool)
{
    template_pool_destroy(*pool);
}

TEST(one_is_made_by_one_and_found_by_all)
{
    AUTO(close_pool) struct template_pool *pool = open_pool(8);
    struct key key = key_of(1);

    if (why_not())
        SKIP(why_not());
    CHECK(!has(pool, 1));
    CHECK(template_pool_claim(pool, key.bytes, 0));
    CHECK(!template_pool_claim(pool, key.bytes, 0) && !has(pool, 1));
    CHECK(template_pool_settle(pool, key.bytes, make(1), 0));
    CHECK(has(pool, 1) && !has(pool, 2));
    CHECK(!template_pool_claim(pool, key.bytes, MINUTE));
}

TEST(what_was_not_used_for_longest_goes_first)
{
    AUTO(close_pool) struct template_pool *pool = open_pool(8);

    if (why_not())
        SKIP(why_not());
    CHECK(add(pool, 1, 3) && add(pool, 2, 3));
    CHECK(has(pool, 1)); /* and is younger than 2 now */
    CHECK(add(pool, 3, 3));
    CHECK(has(pool, 1) && !has(pool, 2) && has(pool, 3));
    CHECK(add(pool, 4, 7));
    CHECK(!has(pool, 1) && !has(pool, 3) && has(pool, 4));
}

TEST(one_that_is_in_use_never_goes)
{
    AUTO(close_pool) struct template_pool *pool = open_pool(4);

    if (why_not())
        SKIP(why_not());
    CHECK(add(pool, 1, 3));
    struct template *held = template_pool_find(pool, key_of(1).bytes);
    CHECK(held && !add(pool, 2, 3));
    CHECK(has(pool, 1) && !has(pool, 2));
    template_drop(held);
    CHECK(template_pool_claim(pool, key_of(2).bytes, MINUTE));
    CHECK(template_pool_settle(pool, key_of(2).bytes, make(3), MINUTE));
    CHECK(!has(pool, 1) && has(pool, 2));
}

TEST(one_that_can_never_fit_pushes_nobody_out)
{
    AUTO(close_pool) struct template_pool *pool = open_pool(4);

    if (why_not())
        SKIP(why_not());
    CHECK(add(pool, 1, 3));
    CHECK(!add(pool, 2, 5));
    CHECK(has(pool, 1) && !has(pool, 2));
}

TEST(what_could_not_be_made_is_left_alone_for_a_while)
{
    AUTO(close_pool) struct template_pool *pool = open_pool(4);
    struct key key = key_of(1);

    CHECK(template_pool_claim(pool, key.bytes, 5));
    CHECK(template_pool_settle(pool, key.bytes, NULL, 5));
    CHECK(!template_pool_claim(pool, key.bytes, MINUTE + 4));
    CHECK(template_pool_claim(pool, key.bytes, MINUTE + 5));
}

TEST(one_whose_copies_keep_failing_is_made_anew)
{
    AUTO(close_pool) struct template_pool *pool = open_pool(4);
    struct key key = key_of(1);

    if (why_not())
        SKIP(why_not());
    CHECK(add(pool, 1, 1));
    struct template *bad = template_pool_find(pool, key.bytes);
    for (int i = 0; i < 8; i++) /* never three in a row */
        template_pool_note(pool, key.bytes, bad, i % 3 == 2);
    CHECK(has(pool, 1));
    for (int i = 0; i < 3; i++)
        template_pool_note(pool, key.bytes, bad, false);
    CHECK(!has(pool, 1) && add(pool, 1, 1));
    template_pool_note(pool, key.bytes, bad, false); /* not of this one */
    template_drop(bad);
    CHECK(has(pool, 1));
}

TEST(very_many_kinds_share_a_pool)
{
    AUTO(close_pool) struct template_pool *pool = open_pool(MEBIBYTE);
    struct key key;

    for (uint8_t i = 0; i < 200; i++) {
        key = key_of(i);
        CHECK(template_pool_claim(pool, key.bytes, 0));
        CHECK(template_pool_settle(pool, key.bytes, NULL, 0));
    }
}

TEST(kinds_that_are_all_being_made_leave_no_place_for_another)
{
    AUTO(close_pool) struct template_pool *pool = open_pool(8);
    size_t n = 0;

    for (uint8_t i = 0; i < 200; i++)
        n += template_pool_claim(pool, key_of(i).bytes, 0);
    CHECK(n > 0 && n < 200);
}

TEST_MAIN()
