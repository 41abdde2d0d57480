#include "base/buf.h"

#include "base/test.h"

TEST(a_buf_never_passes_its_maximum)
{
    AUTO(buf_finish) struct buf buf = {.max = 10};
    struct error err;

    CHECK(buf_append(&buf, STR("0123456789"), &err));
    CHECK(!buf_append(&buf, STR("x"), &err));
    CHECK(err.code == ERR_TOO_LARGE);
    CHECK(str_equal(buf_str(&buf), STR("0123456789")) && buf.cap <= 10);
}

TEST(room_is_made_ahead_and_counts_when_it_is_used)
{
    AUTO(buf_finish) struct buf buf = {.max = 10};
    struct error err;

    CHECK(buf_append(&buf, STR("ab"), &err));
    char *room = buf_room(&buf, 8, &err);
    CHECK(room == buf.bytes + 2 && buf.len == 2);
    memset(room, 'c', 8);
    buf.len += 3;
    CHECK(str_equal(buf_str(&buf), STR("abccc")));
    CHECK(!buf_room(&buf, 6, &err) && err.code == ERR_TOO_LARGE && buf.len == 5);
}

TEST(a_zeroed_buf_accepts_nothing)
{
    AUTO(buf_finish) struct buf buf = {0};
    struct error err;

    CHECK(buf_append(&buf, STR(""), &err));
    CHECK(!buf_append(&buf, STR("x"), &err));
    CHECK(!buf.bytes);
}

TEST(consuming_drops_from_the_front)
{
    AUTO(buf_finish) struct buf buf = {.max = 100};
    struct error err;

    buf_consume(&buf, 0);
    CHECK(buf_append(&buf, STR("hello world"), &err));
    buf_consume(&buf, 6);
    CHECK(str_equal(buf_str(&buf), STR("world")));
    buf_consume(&buf, 5);
    CHECK(buf.len == 0);
}

TEST(a_buf_grows_to_hold_a_megabyte_byte_by_byte)
{
    AUTO(buf_finish) struct buf buf = {.max = 1 << 20};
    struct error err;

    for (int i = 0; i < 1 << 20; i++)
        CHECK(buf_append(&buf, (struct str){"x", 1}, &err));
    CHECK(buf.len == 1 << 20);
}

TEST_MAIN()
