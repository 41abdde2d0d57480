/* What a pause does to the values of secrets, and what must come again after it. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "base/test.h"
#include "guest/sandbox.h"
#include "guest/secrets.h"

#define FIRST  SANDBOX_STATE "/secrets/1-0"
#define SECOND SANDBOX_STATE "/secrets/1-1/KEY"

static const struct message_secret secrets[] = {
    {.program = 1,
     .placement = SECRET_IN_FILE,
     .target = STR("/etc/key"),
     .mode = 0400,
     .value = STR("the first")},
    {.program = 1,
     .placement = SECRET_IN_DIRECTORY,
     .target = STR("/etc/keys"),
     .name = STR("KEY"),
     .mode = 0700,
     .value = STR("the second")},
    {.program = 1,
     .placement = SECRET_IN_ENVIRONMENT,
     .target = STR("TOKEN"),
     .value = STR("the third")},
};

static const char *obstacle(void)
{
    static bool is_private;

    if (geteuid() != 0)
        return "only root makes namespaces here";
    if (!is_private &&
        (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
         mount("tmpfs", "/run", "tmpfs", 0, NULL) != 0 || mkdir(SANDBOX_STATE, 0755) != 0))
        return "no mount namespace can be made here";
    is_private = true;
    return NULL;
}

static struct secrets *make(void)
{
    struct secrets *sets = NULL, *set = NULL;
    struct error err;
    bool is_fine = true;

    for (size_t i = 0; i < COUNT_OF(secrets); i++)
        is_fine = is_fine && secrets_add(&sets, &secrets[i], NULL, &err);
    is_fine = is_fine && secrets_complete(sets, &(struct message_secrets_end){1, 1, 3}, &err) &&
              secrets_take(&sets, 1, &set, &err);
    if (!is_fine)
        printf("# %s\n", err.text);
    return is_fine ? set : NULL;
}

static bool holds(const char *path, const char *bytes, size_t len)
{
    char got[64];
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd >= 0 && read(fd, got, sizeof got) == (ssize_t)len && memcmp(got, bytes, len) == 0;
}

static ino_t inode_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? info.st_ino : 0;
}

static void collect(void *arg, struct str name, struct str value)
{
    snprintf(arg, 64, "%.*s=%.*s", (int)name.len, name.ptr, (int)value.len, value.ptr);
}

TEST(a_pause_leaves_zeros_in_the_same_files)
{
    static const char zeros[16];
    struct error err;

    if (obstacle())
        SKIP(obstacle());
    struct secrets *set = make();
    CHECK(set);
    ino_t first = inode_of(FIRST);
    CHECK(holds(FIRST, "the first", 9) && holds(SECOND, "the second", 10));
    CHECK(secrets_zero(set, &err) && secrets_zero(set, &err));
    CHECK(holds(FIRST, zeros, 9) && holds(SECOND, zeros, 10));
    CHECK(set->is_zero && inode_of(FIRST) == first);
    secrets_destroy(set, NULL);
    CHECK(inode_of(FIRST) == 0 && inode_of(SECOND) == 0);
}

TEST(what_comes_again_is_written_into_the_same_files)
{
    struct message_secret longer = secrets[0], shorter = secrets[1];
    struct error err;
    char variable[64] = "";

    if (obstacle())
        SKIP(obstacle());
    struct secrets *set = make();
    CHECK(set);
    ino_t first = inode_of(FIRST);
    longer.value = STR("the first, rotated");
    shorter.value = STR("2nd");
    CHECK(secrets_zero(set, &err));
    CHECK(secrets_rewrite(set, &secrets[2], &err) && secrets_rewrite(set, &shorter, &err) &&
          secrets_rewrite(set, &longer, &err));
    CHECK(secrets_rewritten(set, &(struct message_secrets_end){1, 1, 3}, &err) && !set->is_zero);
    CHECK(holds(FIRST, "the first, rotated", 18) && holds(SECOND, "2nd", 3));
    CHECK(inode_of(FIRST) == first);
    secrets_variables(set, collect, variable);
    CHECK_STR(variable, "TOKEN=the third");
    CHECK(!set->variables);
    secrets_destroy(set, NULL);
}

TEST(a_secret_that_does_not_come_again_is_missed)
{
    struct message_secret stranger = secrets[0];
    struct error err;

    if (obstacle())
        SKIP(obstacle());
    struct secrets *set = make();
    CHECK(set);
    stranger.target = STR("/etc/other");
    CHECK(!secrets_rewrite(set, &secrets[0], &err) && err.code == ERR_INVALID);
    CHECK(secrets_zero(set, &err));
    CHECK(!secrets_rewrite(set, &stranger, &err) && err.code == ERR_INVALID);
    for (int i = 0; i < 3; i++)
        CHECK(secrets_rewrite(set, &secrets[0], &err));
    CHECK(!secrets_rewrite(set, &secrets[1], &err));
    CHECK(!secrets_rewritten(set, &(struct message_secrets_end){1, 1, 2}, &err));
    CHECK(!secrets_rewritten(set, &(struct message_secrets_end){1, 1, 3}, &err));
    CHECK(set->is_zero);
    secrets_destroy(set, NULL);
}

TEST_MAIN()
