/* Layers unpacked by nobody and by root: what comes of them must be the same bytes. Needs root, who
 * can be both. */
#include "image/aside.h"

#include <grp.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "image/ext4.h"
#include "image/extract.h"
#include "image/testing.h"

enum { NOBODY = 65534 };

/* Everything that only root can give. */
static const char below_script[] =
    "mkdir -p below/d below/shut below/hidden below/gone && cd below\n"
    "echo file > d/f; echo mine > d/mine; echo secret > d/none; echo x > gone/x; echo x > "
    "hidden/x\n"
    "ln -s f d/root-link; ln -s f d/link; ln d/mine d/other-name; mkfifo d/pipe d/my-pipe\n"
    "echo run > d/suid; echo cap > d/cap; echo in > shut/in\n"
    "chown 1000:1001 d d/mine d/my-pipe; chown -h 1000:1001 d/link; chmod 4755 d/suid\n"
    "chmod 0000 d/none; chmod 0555 shut; chmod 0020 d/my-pipe\n";
static const char above_script[] = "mkdir -p above/hidden above/d && cd above\n"
                                   "mknod gone c 0 0; echo y > hidden/y\n"
                                   "ln -s elsewhere d/new-link; chown -h 7:8 d/new-link\n";

static bool attributes_set(const struct testing *t)
{
    static const uint8_t capability[20] = {1, 0, 0, 2, 0, 4};
    const char *file = testing_path(t, "below/d/cap");

    return setxattr(file, "user.note", "kept", 4, 0) == 0 &&
           setxattr(file, "security.capability", capability, sizeof capability, 0) == 0 &&
           setxattr(testing_path(t, "below/d/f"), "user.helmr.facts", "100777 0 0", 10, 0) == 0 &&
           setxattr(testing_path(t, "above/hidden"), OVERLAY_OPAQUE, "y", 1, 0) == 0;
}

static bool pack(struct testing *t, const char *name, enum layer_tree kind)
{
    AUTO(layer_writer_finish) struct layer_writer writer = {0};
    AUTO_FD int folder = open(testing_path(t, "%s", name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_FD int out =
        open(testing_path(t, "%s.tar", name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    struct image_layer layer;

    return folder >= 0 && out >= 0 && layer_writer_init(&writer, out, false, &t->err) &&
           layer_write_tree(&writer, folder, kind, 0, &t->err) &&
           layer_writer_end(&writer, &layer, &t->err);
}

static bool unpack(struct testing *t, const char *who, const char *name, const struct view *below)
{
    AUTO_FD int archive = open(testing_path(t, "%s.tar", name), O_RDONLY | O_CLOEXEC);
    const char *path = testing_path(t, "%s-%s", who, name);
    struct tar_budget budget = {TAR_BYTES_MAX, TAR_ENTRIES_MAX};

    if (!testing_folder(path))
        return false;
    AUTO_FD int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct extract_spec spec = {.kind = EXTRACT_LAYER,
                                      .root = root,
                                      .below = below,
                                      .budget = &budget};
    AUTO(tar_reader_finish) struct tar_reader reader = {0};
    return tar_reader_open(&reader, archive, TAR_MAY_BE_COMPRESSED, TAR_BYTES_MAX, &t->err) &&
           extract_archive(&spec, &reader, &t->err);
}

/* Both layers, a drive of both, and the upper one as a tar once more. */
static bool make_all(struct testing *t, const char *who)
{
    AUTO(view_finish) struct view below = {0};
    const char *folders[] = {testing_path(t, "%s-below", who), testing_path(t, "%s-above", who)};
    const struct ext4_plan plan = {.layers = folders, .n_layers = 2, .seed = STR("test")};
    AUTO_FD int drive =
        open(testing_path(t, "%s.ext4", who), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    char hash[DIGEST_TEXT] = "";

    bool ok = unpack(t, who, "below", NULL) && view_open(folders, 1, &below, &t->err) &&
              unpack(t, who, "above", &below) && ext4_write(&plan, drive, &t->err) &&
              testing_hash(folders[0], LAYER_OF_ROOT, hash, &t->err) &&
              testing_file(testing_path(t, "%s.hash", who), hash);
    if (!ok)
        printf("# %s: %s\n", who, t->err.text);
    return ok;
}

/* In a process that is nobody. */
static bool make_as_nobody(struct testing *t)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        bool is_nobody = setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                         setresuid(NOBODY, NOBODY, NOBODY) == 0;
        bool ok = is_nobody && aside_is_needed() && make_all(t, "nobody");
        fflush(stdout);
        _exit(ok ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

TEST(what_nobody_unpacked_makes_the_same_bytes_as_what_root_did)
{
    if (geteuid() != 0)
        SKIP("needs root, to be compared with");
    TESTING(t);

    CHECK(chmod(t.path, 0777) == 0);
    CHECK(testing_sh(&t, below_script) && testing_sh(&t, above_script) && attributes_set(&t));
    CHECK(pack(&t, "below", LAYER_OF_ROOT) && pack(&t, "above", LAYER_OF_OVERLAY));
    CHECK(make_all(&t, "root"));
    CHECK(make_as_nobody(&t));
    CHECK(testing_sh(&t, "test -s root.ext4 && cmp root.ext4 nobody.ext4"));
    CHECK(testing_sh(&t, "test -s root.hash && cmp root.hash nobody.hash"));

    /* Nothing of it is really so on nobody's disk. */
    struct stat facts;
    CHECK(stat(testing_path(&t, "nobody-below/d/suid"), &facts) == 0);
    CHECK(facts.st_uid == NOBODY && (facts.st_mode & 07777) == 0755);
    CHECK(lstat(testing_path(&t, "nobody-below/d/link"), &facts) == 0 && S_ISREG(facts.st_mode));
    CHECK(lstat(testing_path(&t, "nobody-below/d/root-link"), &facts) == 0 &&
          S_ISLNK(facts.st_mode));
}

TEST(an_image_cannot_say_what_is_kept_aside)
{
    CHECK(!extract_keeps_attribute("user.helmr.facts"));
    CHECK(!extract_keeps_attribute("user.helmr.opaque"));
    CHECK(extract_keeps_attribute("user.helm") && extract_keeps_attribute("security.capability"));
}

TEST_MAIN()
