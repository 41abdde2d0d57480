#include "protocol/files.h"

#include "base/test.h"

static const struct files_entry samples[] = {
    {FILES_FILE,      0644,  6, 1,  STR("a.txt"), {0}          },
    {FILES_DIRECTORY, 0755,  0, -1, STR("dir"),   {0}          },
    {FILES_SYMLINK,   0777,  3, 0,  STR("link"),  STR("dir/..")},
    {FILES_OTHER,     07777, 0, 0,  STR(""),      {0}          },
};

TEST(entries_come_back_as_they_went)
{
    AUTO(buf_finish) struct buf bytes = {.max = KIB(4)};
    struct files_entry entry;
    struct error err;

    for (size_t i = 0; i < COUNT_OF(samples); i++)
        CHECK(files_entry_append(&bytes, &samples[i], &err));
    struct str rest = buf_str(&bytes);
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        CHECK(files_entry_take(&rest, &entry, &err));
        CHECK(entry.type == samples[i].type && entry.mode == samples[i].mode);
        CHECK(entry.size == samples[i].size && entry.mtime_ns == samples[i].mtime_ns);
        CHECK(str_equal(entry.name, samples[i].name) && str_equal(entry.target, samples[i].target));
    }
    CHECK(rest.len == 0);
}

TEST(what_no_agent_writes_is_refused)
{
    static const struct files_entry bad[] = {
        {FILES_FILE,    0644,   0,          0, STR("a/b"), {0}     },
        {FILES_FILE,    0644,   0,          0, STR(".."),  {0}     },
        {FILES_FILE,    0644,   0,          0, STR("x"),   STR("t")},
        {FILES_SYMLINK, 0777,   0,          0, STR("x"),   {0}     },
        {FILES_FILE,    010000, 0,          0, STR("x"),   {0}     },
        /* NOLINTNEXTLINE(*-EnumCastOutOfRange): no such type */
        {0,             0644,   0,          0, STR("x"),   {0}     },
        {FILES_FILE,    0644,   1ull << 63, 0, STR("x"),   {0}     },
    };
    struct files_entry entry;
    struct error err;

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(buf_finish) struct buf bytes = {.max = KIB(4)};

        CHECK(files_entry_append(&bytes, &bad[i], &err));
        struct str rest = buf_str(&bytes);
        CHECK(!files_entry_take(&rest, &entry, &err) && err.code == ERR_INVALID);
    }
}

TEST(an_entry_that_is_cut_anywhere_is_refused)
{
    AUTO(buf_finish) struct buf bytes = {.max = KIB(4)};
    struct files_entry entry;
    struct error err;

    CHECK(files_entry_append(&bytes, &samples[2], &err));
    for (size_t len = 0; len < bytes.len; len++) {
        struct str rest = {bytes.bytes, len};
        CHECK(!files_entry_take(&rest, &entry, &err));
    }
}

TEST_MAIN()
