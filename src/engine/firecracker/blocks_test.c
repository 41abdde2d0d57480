#include "engine/firecracker/blocks.h"

#include <sys/mman.h>

#include "base/own.h"
#include "base/str.h"
#include "base/test.h"

enum { SIZE = 1 << 20, PAGE = 4096 };

static int file_of(size_t size)
{
    int fd = memfd_create("blocks", MFD_CLOEXEC);

    return fd >= 0 && ftruncate(fd, (off_t)size) == 0 ? fd : -1;
}

static bool page_put(int fd, int page, char value)
{
    char bytes[PAGE];

    memset(bytes, value, sizeof(bytes));
    return pwrite(fd, bytes, sizeof(bytes), (off_t)page * PAGE) == PAGE;
}

static int byte_at(int fd, int page)
{
    char byte;

    return pread(fd, &byte, 1, (off_t)page * PAGE + 17) == 1 ? byte : -1;
}

TEST(changes_go_over_what_was_there_and_holes_do_not)
{
    AUTO_FD int to = file_of(SIZE), changes = file_of(SIZE);
    struct error err = {0};

    CHECK(page_put(to, 0, 'a') && page_put(to, 5, 'b') && page_put(to, 255, 'c'));
    CHECK(page_put(changes, 5, 'x') && page_put(changes, 9, 'y'));
    CHECK(blocks_overlay(changes, to, &err));
    CHECK(byte_at(to, 0) == 'a' && byte_at(to, 5) == 'x' && byte_at(to, 9) == 'y');
    CHECK(byte_at(to, 255) == 'c' && byte_at(to, 7) == 0);
}

/* A page that the guest set to zero has changed. */
TEST(a_page_of_zeros_among_the_changes_counts)
{
    AUTO_FD int to = file_of(SIZE), changes = file_of(SIZE);
    struct error err = {0};

    CHECK(page_put(to, 3, 'a') && page_put(changes, 3, 0));
    CHECK(blocks_overlay(changes, to, &err));
    CHECK(byte_at(to, 3) == 0);
}

TEST(files_are_equal_by_what_is_read_of_them)
{
    AUTO_FD int one = file_of(SIZE), other = file_of(SIZE), longer = file_of(SIZE + PAGE);
    struct error err = {0};
    bool is_equal;

    CHECK(page_put(one, 200, 'a') && page_put(other, 200, 'a') && page_put(other, 3, 0));
    CHECK(blocks_equal(one, other, &is_equal, &err) && is_equal);
    CHECK(pwrite(other, "b", 1, SIZE - 1) == 1);
    CHECK(blocks_equal(one, other, &is_equal, &err) && !is_equal);
    CHECK(blocks_equal(one, longer, &is_equal, &err) && !is_equal);
}

TEST_MAIN()
