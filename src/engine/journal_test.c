#include "engine/journal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/own.h"
#include "engine/fixture.h"

static bool sample_write(struct fixture *fixture, int *dir, struct error *err)
{
    struct journal journal;

    if (!fixture_open(fixture))
        return error_errno(err, "folder");
    *dir = open(fixture->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    bool ok = journal_create(*dir, &journal, err) &&
              journal_intent(&journal, RESOURCE_SLOT, "7", err) &&
              journal_intent(&journal, RESOURCE_DIR, "/var/lib/a b%c\n", err) &&
              journal_intent(&journal, RESOURCE_PROCESS, "gvisor", err) &&
              journal_sync(&journal, err) && journal_made(&journal, RESOURCE_SLOT, "7", "7", err) &&
              journal_made(&journal, RESOURCE_PROCESS, "gvisor", "12,34,5:6", err) &&
              journal_gone(&journal, RESOURCE_PROCESS, "gvisor", err);
    journal_finish(&journal);
    return ok;
}

static bool sample_read(struct fixture *fixture, char **text, struct error *err)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/journal", fixture->folder);
    return file_read(path, 65536, text, err);
}

TEST(what_was_written_is_read_back_in_order)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO_FD int dir = -1;
    struct journal_list list;
    struct journal journal;
    struct error err = {0};

    CHECK(sample_write(&fixture, &dir, &err));
    CHECK(journal_open(dir, &journal, &list, &err));
    CHECK(list.n == 3 && !list.torn && list.next_seq == 7);
    CHECK(list.items[0].kind == RESOURCE_SLOT);
    CHECK_STR(list.items[1].name, "/var/lib/a b%c\n");
    CHECK_STR(list.items[1].identity, "");
    CHECK_STR(list.items[2].identity, "12,34,5:6");
    CHECK(list.items[2].gone && !list.items[0].gone);
    journal_finish(&journal);
}

TEST(a_line_torn_at_any_byte_loses_only_itself)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO_FD int dir = -1;
    struct journal_list list;
    AUTO_FREE char *text = NULL;
    struct error err = {0};

    CHECK(sample_write(&fixture, &dir, &err));
    CHECK(sample_read(&fixture, &text, &err));
    for (size_t len = 0; len <= strlen(text); len++) {
        size_t lines = 0, whole = 0;
        for (size_t i = 0; i < len; i++) {
            lines += text[i] == '\n';
            whole = text[i] == '\n' ? i + 1 : whole;
        }
        CHECK(journal_parse((struct str){text, len}, &list, &err));
        CHECK(list.next_seq == lines + 1);
        CHECK(list.good_bytes == whole);
        CHECK(list.torn == (whole != len));
    }
}

TEST(a_torn_tail_is_cut_off_before_more_is_written)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO_FD int dir = -1;
    struct journal_list list;
    struct journal journal;
    struct error err = {0};
    struct stat status;

    CHECK(sample_write(&fixture, &dir, &err));
    CHECK(dir >= 0);
    AUTO_FD int file = openat(dir, "journal", O_RDWR | O_CLOEXEC);
    CHECK(file >= 0 && fstat(file, &status) == 0 && ftruncate(file, status.st_size - 5) == 0);
    CHECK(journal_open(dir, &journal, &list, &err));
    CHECK(list.torn && !list.items[2].gone);
    CHECK(journal_gone(&journal, RESOURCE_PROCESS, "gvisor", &err));
    journal_finish(&journal);
    CHECK(journal_open(dir, &journal, &list, &err));
    CHECK(!list.torn && list.items[2].gone && list.next_seq == 7);
    journal_finish(&journal);
}

TEST(a_changed_byte_before_the_last_line_is_damage)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO_FD int dir = -1;
    struct journal_list list;
    AUTO_FREE char *text = NULL;
    struct error err = {0};

    CHECK(sample_write(&fixture, &dir, &err));
    CHECK(sample_read(&fixture, &text, &err));
    size_t len = strlen(text), last = len - 1;
    while (text[last - 1] != '\n')
        last--;

    /* Not the newline before it: without that, the last two are one torn line. */
    for (size_t i = 0; i < last - 1; i++) {
        text[i] ^= 1;
        CHECK(!journal_parse((struct str){text, len}, &list, &err));
        text[i] ^= 1;
    }
    CHECK(journal_parse((struct str){text, len}, &list, &err));
}

TEST(what_was_never_announced_cannot_be_made)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO_FD int dir = -1;
    struct journal_list list;
    struct journal journal;
    struct error err = {0};

    CHECK(fixture_open(&fixture));
    dir = open(fixture.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(journal_create(dir, &journal, &err));
    CHECK(journal_made(&journal, RESOURCE_LINK, "hx1", "9", &err));
    CHECK(journal_intent(&journal, RESOURCE_LINK, "hx1", &err));
    journal_finish(&journal);
    CHECK(!journal_open(dir, &journal, &list, &err));
}

TEST_MAIN()
