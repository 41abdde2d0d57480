#include "guest/path.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/process.h"
#include "base/test.h"

struct folder {
    char path[64];
};

static bool folder_make(struct folder *folder)
{
    snprintf(folder->path, sizeof folder->path, "/tmp/helmr-path-test-XXXXXX");
    return mkdtemp(folder->path) != NULL;
}

static void folder_finish(struct folder *folder)
{
    const char *const argv[] = {"rm", "-rf", folder->path, NULL};
    struct error err;

    if (folder->path[0])
        (void)!process_must(argv, (struct str){0}, 10000, NULL, &err);
}

#define FOLDER(folder)                                \
    AUTO(folder_finish) struct folder folder = {{0}}; \
    CHECK(folder_make(&(folder)))

TEST(only_plain_absolute_paths_are_clean)
{
    CHECK(path_is_clean(STR("/")) && path_is_clean(STR("/a")) && path_is_clean(STR("/a/b..c/.d")));
    CHECK(!path_is_clean(STR("")) && !path_is_clean(STR("a")) && !path_is_clean(STR("/a/")));
    CHECK(!path_is_clean(STR("//a")) && !path_is_clean(STR("/a/../b")));
    CHECK(!path_is_clean(STR("/.")) && !path_is_clean(STR("/a/./b")));
    CHECK(!path_is_clean(STR("/a\0b")));
}

TEST(directories_are_made_on_the_way)
{
    FOLDER(folder);
    enum path_kind kind;
    struct error err;
    bool is_new;

    CHECK(path_make(folder.path, "/a/b/c", 0700, &is_new, &err) && is_new);
    CHECK(path_make(folder.path, "/a/b/c", 0700, &is_new, &err) && !is_new);
    CHECK(path_kind(folder.path, "/a/b/c", &kind, &err) && kind == PATH_DIRECTORY);
    CHECK(path_kind(folder.path, "/a/x/c", &kind, &err) && kind == PATH_ABSENT);
}

TEST(a_link_is_never_followed)
{
    FOLDER(folder);
    enum path_kind kind;
    struct error err;
    bool is_new;
    char link[128];
    char *text = NULL;

    snprintf(link, sizeof link, "%s/link", folder.path);
    CHECK(symlink("/etc", link) == 0);
    CHECK(path_kind(folder.path, "/link", &kind, &err) && kind == PATH_LINK);
    CHECK(!path_kind(folder.path, "/link/passwd", &kind, &err) && err.code == ERR_FORBIDDEN);
    CHECK(!path_make(folder.path, "/link", 0755, &is_new, &err) && err.code == ERR_FORBIDDEN);
    CHECK(!path_make(folder.path, "/link/x", 0755, &is_new, &err) && err.code == ERR_FORBIDDEN);
    CHECK(!path_read(folder.path, "/link/passwd", 99999, &text, &err));
    CHECK(!path_write(folder.path, "/link/x", 0644, STR("x"), &err));
}

TEST(a_file_replaces_a_link_and_leaves_its_target_alone)
{
    FOLDER(folder);
    struct error err;
    char target[128], link[128];
    AUTO_FREE char *text = NULL;
    AUTO_FREE char *kept = NULL;

    CHECK(path_write(folder.path, "/target", 0644, STR("theirs"), &err));
    snprintf(target, sizeof target, "%s/target", folder.path);
    snprintf(link, sizeof link, "%s/link", folder.path);
    CHECK(symlink(target, link) == 0);
    CHECK(!path_read(folder.path, "/link", 100, &text, &err) && err.code == ERR_NOT_FOUND);
    CHECK(path_write(folder.path, "/link", 0600, STR("ours"), &err));
    CHECK(path_read(folder.path, "/link", 100, &text, &err));
    CHECK_STR(text, "ours");
    CHECK(path_read(folder.path, "/target", 100, &kept, &err));
    CHECK_STR(kept, "theirs");
}

TEST(only_files_within_the_limit_are_read)
{
    FOLDER(folder);
    struct error err;
    char fifo[128];
    char *text = NULL;

    CHECK(path_write(folder.path, "/file", 0644, STR("12345"), &err));
    CHECK(!path_read(folder.path, "/file", 4, &text, &err) && err.code == ERR_TOO_LARGE);
    snprintf(fifo, sizeof fifo, "%s/fifo", folder.path);
    CHECK(mkfifo(fifo, 0644) == 0);
    CHECK(!path_read(folder.path, "/fifo", 4, &text, &err) && err.code == ERR_NOT_FOUND);
}

TEST_MAIN()
