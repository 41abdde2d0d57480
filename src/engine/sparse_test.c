/* Files with holes: what is in them is found and copied, and nothing else. */
#include "engine/sparse.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/test.h"

enum { WHOLE = 5 * SPARSE_RUN_MAX + 77 };

static int make_file(int64_t size)
{
    int fd = memfd_create("sparse", MFD_CLOEXEC);

    return fd >= 0 && ftruncate(fd, size) == 0 ? fd : -1;
}

static void put(int fd, int64_t offset, const char *bytes, size_t n)
{
    struct error err;

    CHECK(sparse_write(fd, offset, (struct str){bytes, n}, &err));
}

/* Where the runs are, as text. */
static void list_runs_over(int fd, int over, struct buf *out)
{
    AUTO(sparse_reader_finish) struct sparse_reader reader = {0};
    struct error err;
    struct str bytes;
    int64_t offset;

    CHECK(sparse_reader_init_over(&reader, fd, over, &err));
    for (;;) {
        CHECK(sparse_read(&reader, &offset, &bytes, &err));
        if (bytes.len == 0)
            break;
        char text[64];
        snprintf(text, sizeof text, "%lld+%zu ", (long long)offset, bytes.len);
        CHECK(buf_append(out, str_of(text), &err));
    }
    CHECK(buf_append(out, (struct str){"", 1}, &err));
}

static void list_runs(int fd, struct buf *out)
{
    list_runs_over(fd, -1, out);
}

static bool is_same(int one, int other)
{
    AUTO_FREE char *left = alloc(WHOLE), *right = alloc(WHOLE);

    return pread(one, left, WHOLE, 0) == WHOLE && pread(other, right, WHOLE, 0) == WHOLE &&
           memcmp(left, right, WHOLE) == 0;
}

TEST(only_blocks_that_are_not_zero_are_read)
{
    AUTO(buf_finish) struct buf runs = {.max = KIB(4)};
    AUTO_FD int fd = make_file(WHOLE);
    const char zeros[KIB(16)] = {0};

    CHECK(fd >= 0);
    put(fd, KIB(12) + 5, "x", 1);
    put(fd, KIB(16), "x", 1);
    put(fd, KIB(32), zeros, sizeof zeros); /* there, and nothing */
    put(fd, KIB(36) - 1, "x", 1);
    put(fd, KIB(40), "x", 1);
    put(fd, WHOLE - 1, "x", 1);
    list_runs(fd, &runs);
    CHECK_STR(runs.bytes, "12288+8192 32768+4096 40960+4096 5242880+77 ");
}

TEST(a_run_ends_where_the_next_mebibyte_begins)
{
    AUTO(buf_finish) struct buf runs = {.max = KIB(4)};
    AUTO_FREE char *ones = alloc(MIB(2));
    AUTO_FD int fd = make_file(WHOLE);

    CHECK(fd >= 0);
    memset(ones, 1, MIB(2));
    put(fd, SPARSE_RUN_MAX / 2, ones, MIB(2));
    list_runs(fd, &runs);
    CHECK_STR(runs.bytes, "524288+524288 1048576+1048576 2097152+524288 ");
}

/* Blocks here and there, some of them nothing: the same in one file and laid over another. */
TEST(two_files_are_read_as_the_one_they_make)
{
    static const struct {
        int64_t offset;
        size_t n;
        char value;
        bool is_over;
    } parts[] = {
        {0,                  KIB(12),        1, false},
        {KIB(8),             KIB(8),         2, true },
        {KIB(32),            KIB(24),        3, false},
        {KIB(36),            SPARSE_BLOCK,   0, true },
        {KIB(44),            SPARSE_BLOCK,   4, true },
        {SPARSE_RUN_MAX / 2, SPARSE_RUN_MAX, 5, true },
        {MIB(3) / 2,         SPARSE_RUN_MAX, 6, false},
        {MIB(5),             77,             7, true },
    };
    AUTO(buf_finish) struct buf apart = {.max = KIB(4)};
    AUTO(buf_finish) struct buf whole = {.max = KIB(4)};
    AUTO_FREE char *bytes = alloc(SPARSE_RUN_MAX);
    AUTO_FD int one = make_file(WHOLE);
    AUTO_FD int under = make_file(WHOLE);
    AUTO_FD int over = make_file(WHOLE);
    AUTO_FD int copy = make_file(0);
    struct error err;

    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        memset(bytes, parts[i].value, SPARSE_RUN_MAX);
        put(one, parts[i].offset, bytes, parts[i].n);
        put(parts[i].is_over ? over : under, parts[i].offset, bytes, parts[i].n);
    }
    list_runs(one, &whole);
    CHECK(sparse_copy_over(under, over, copy, &err) && is_same(one, copy));
    list_runs_over(under, over, &apart);
    CHECK_STR(apart.bytes, whole.bytes);
}

TEST(what_has_nothing_in_it_has_no_runs)
{
    AUTO(buf_finish) struct buf runs = {.max = KIB(4)};
    AUTO_FD int holes = make_file((int64_t)1 << 40);
    AUTO_FD int empty = make_file(0);

    list_runs(holes, &runs);
    list_runs(empty, &runs);
    CHECK(runs.len == 2 && runs.bytes[0] == 0 && runs.bytes[1] == 0);
}

TEST(a_copy_is_equal_and_takes_no_more)
{
    AUTO_FREE char *got = alloc(WHOLE), *want = alloc(WHOLE);
    AUTO_FD int from = make_file(WHOLE);
    AUTO_FD int to = make_file(0);
    const char zeros[KIB(256)] = {0};
    struct stat before, after;
    struct error err;

    put(from, 7, "one", 3);
    put(from, MIB(2) - 2, "two", 3);
    put(from, MIB(3), zeros, sizeof zeros);
    put(from, WHOLE - 5, "three", 5);
    CHECK(from >= 0 && to >= 0 && sparse_copy(from, to, &err));
    CHECK(fstat(from, &before) == 0 && fstat(to, &after) == 0);
    CHECK(after.st_size == WHOLE && after.st_blocks < before.st_blocks);
    CHECK(pread(from, want, WHOLE, 0) == WHOLE && pread(to, got, WHOLE, 0) == WHOLE);
    CHECK(memcmp(got, want, WHOLE) == 0);
}

TEST(a_file_that_shrinks_while_it_is_read_is_refused)
{
    AUTO(sparse_reader_finish) struct sparse_reader reader = {0};
    AUTO_FD int fd = make_file(WHOLE);
    struct error err = {0};
    struct str bytes;
    int64_t offset;

    put(fd, 0, "x", 1);
    put(fd, MIB(2), "x", 1);
    CHECK(sparse_reader_init(&reader, fd, &err) && sparse_read(&reader, &offset, &bytes, &err));
    CHECK(ftruncate(fd, MIB(2) + 1) == 0);
    CHECK(!sparse_read(&reader, &offset, &bytes, &err) && err.code == ERR_DAMAGED);
}

TEST_MAIN()
