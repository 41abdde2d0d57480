/* bootstrap_debian: Debian by mmdebstrap, from the mirrors the host uses. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/own.h"
#include "base/process.h"
#include "image/aside.h"
#include "image/authorities.h"
#include "image/bootstrap.h"

enum { ARGUMENTS_MAX = 64, LINE_MAX_LEN = 512, APT_TIMEOUT_MS = 30 * 1000, EXEC_NOT_FOUND = 127 };

static const char *const suites[] = {"bookworm", "bullseye", "trixie"};

/* In namespaces of their own, so that the packages' scripts and their mounts end with us, whatever
 * ends us. As in Debian's own slim images documentation stays out, now and with later packages. */
static const char *const fixed_arguments[] = {
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "mmdebstrap",
    "--mode=root",
    "--variant=minbase",
    "--format=directory",
    "--include=ca-certificates,libstdc++6",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/info/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/lintian/*",
    "--aptopt=APT::Install-Recommends \"false\"",
};

/* What the making leaves behind: of the host, of the moment, or for nobody. */
static const char *const emptied[] = {
    "var/cache/apt", "var/lib/apt/lists", "var/log", "var/cache/ldconfig", "tmp", "run", "dev",
};
static const char *const removed[] = {
    "etc/hostname",
    "etc/resolv.conf",
    "etc/machine-id",
    "etc/passwd-",
    "etc/group-",
    "etc/shadow-",
    "etc/gshadow-",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/available-old",
    "var/cache/debconf/config.dat-old",
    "var/cache/debconf/templates.dat-old",
    "var/lib/dbus/machine-id",
};

/* The lines of sources.list for the suite: what the host has, with its suite replaced. None at
 * all is fine: mmdebstrap knows Debian's own mirror. */
static const char *source_line(struct arena *arena, struct str line, const char *suite)
{
    struct str uri, release, component;

    if (!str_split(&line, '|', &uri) || !str_split(&line, '|', &release) ||
        !str_split(&line, '|', &component) || uri.len == 0 || component.len == 0)
        return NULL;
    for (size_t i = 0; i < COUNT_OF(suites); i++) {
        size_t len = strlen(suites[i]);
        if (release.len < len || memcmp(release.ptr, suites[i], len) != 0)
            continue;
        struct str tail = {release.ptr + len, release.len - len};
        if (tail.len && !str_equal(tail, STR("-updates")) && !str_equal(tail, STR("-security")))
            return NULL;
        return arena_printf(arena, "deb %.*s %s%.*s %.*s", (int)uri.len, uri.ptr, suite,
                            (int)tail.len, tail.ptr, (int)component.len, component.ptr);
    }
    return NULL;
}

static size_t add_sources(const struct bootstrap *bootstrap, const char **argv, size_t n)
{
    static const char *const query[] = {
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI)|$(RELEASE)|$(COMPONENT)",
        "Created-By: Packages",
        NULL,
    };
    AUTO(buf_finish) struct buf out = {.max = 1 << 16};
    size_t first = n;
    struct str rest, line;
    struct error ignored;

    if (!process_must(query, (struct str){0}, APT_TIMEOUT_MS, &out, &ignored))
        return n;
    rest = buf_str(&out);
    while (n + 1 < ARGUMENTS_MAX && str_split(&rest, '\n', &line)) {
        const char *source = source_line(bootstrap->arena, line, bootstrap->recipe.suite);
        bool is_known = !source;
        for (size_t i = first; source && i < n; i++)
            is_known = is_known || strcmp(argv[i], source) == 0;
        if (!is_known)
            argv[n++] = source;
    }
    return n;
}

static const char *const *environment(const struct bootstrap *bootstrap)
{
    size_t n = 0;

    while (environ[n])
        n++;
    const char **env = arena_array(bootstrap->arena, n + 4, sizeof *env);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LC_", 3) != 0 && strncmp(environ[i], "LANG", 4) != 0 &&
            strncmp(environ[i], "SOURCE_DATE_EPOCH=", 18) != 0)
            env[kept++] = environ[i];
    env[kept++] = "LC_ALL=C.UTF-8";
    env[kept++] = "DEBIAN_FRONTEND=noninteractive";
    env[kept] =
        arena_printf(bootstrap->arena, "SOURCE_DATE_EPOCH=%jd", (intmax_t)bootstrap->newest);
    return env;
}

/* Hands on what the tool prints, line by line, and closes it; keeps the last line that says why
 * it failed. */
static bool follow(const struct bootstrap *bootstrap, int fd, char last[LINE_MAX_LEN],
                   struct error *err)
{
    char line[LINE_MAX_LEN];
    FILE *lines = fdopen(fd, "r");

    if (!lines) {
        error_errno(err, "open a pipe");
        close(fd);
        return false;
    }
    while (fgets(line, sizeof line, lines)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (strncmp(line, "I: ", 3) == 0)
            bootstrap_say(bootstrap, "  %s", line + 3);
        if (strncmp(line, "E: ", 3) == 0 || !last[0])
            memcpy(last, line, sizeof line);
    }
    (void)fclose(lines);
    return true;
}

static bool run_tool(const struct bootstrap *bootstrap, const char *const *argv, struct error *err)
{
    AUTO(process_finish) struct process process = {.pidfd = -1};
    char last[LINE_MAX_LEN] = "";
    int ends[2], status = 0;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_errno(err, "make a pipe");
    AUTO_FD int ours = ends[0];
    AUTO_FD int theirs = ends[1];
    struct process_spec spec = {
        .argv = argv,
        .env = environment(bootstrap),
        .fds = {{theirs, 1}, {theirs, 2}},
        .n_fds = 2,
        .die_with_parent = true,
    };
    if (!process_start(&spec, &process, err))
        return false;
    close(take_fd(&theirs));
    if (!follow(bootstrap, take_fd(&ours), last, err) || !process_wait(&process, -1, &status, err))
        return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXEC_NOT_FOUND)
        return error_set(err, ERR_UNAVAILABLE,
                         "mmdebstrap is not installed: apt-get install mmdebstrap");
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
           error_set(err, ERR_UNAVAILABLE, "mmdebstrap failed: %s", last);
}

static bool empty_folder(int root, const char *path, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    AUTO_FD int fd = disk_open(root, path, O_RDONLY | O_DIRECTORY);

    if (fd < 0)
        return errno == ENOENT || error_errno(err, "open %s", path);
    if (!disk_list(fd, TAR_ENTRIES_MAX, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++)
        if (!tree_remove(fd, names.names[i], err))
            return false;
    return true;
}

static bool strip(const char *folder, struct error *err)
{
    AUTO_FD int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (root < 0)
        return error_errno(err, "open %s", folder);
    for (size_t i = 0; i < COUNT_OF(emptied); i++)
        if (!empty_folder(root, emptied[i], err))
            return false;
    for (size_t i = 0; i < COUNT_OF(removed); i++)
        if (unlinkat(root, removed[i], 0) != 0 && errno != ENOENT && errno != ENOTDIR)
            return error_errno(err, "remove %s", removed[i]);
    return true;
}

/* Else nothing in the image could fetch a package where the network signs for others. */
static bool trust_host(const struct bootstrap *bootstrap, const char *folder, struct error *err)
{
    AUTO(buf_finish) struct buf added = {.max = 1 << 20};
    AUTO_FD int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t n;

    if (root < 0)
        return error_errno(err, "open %s", folder);
    if (!authorities_find("/" AUTHORITIES_BUNDLE, "/usr/share/ca-certificates", &added, &n, err))
        return false;
    if (n == 0)
        return true;
    bootstrap_say(bootstrap, "the image trusts %zu certificate authorities added to this host", n);
    return authorities_trust(root, buf_str(&added), err);
}

bool bootstrap_debian(const struct bootstrap *bootstrap, const char **folder, struct error *err)
{
    const char *argv[ARGUMENTS_MAX] = {0};
    size_t n = COUNT_OF(fixed_arguments);

    if (aside_is_needed())
        return error_set(err, ERR_UNAVAILABLE,
                         "only root can make Debian here: bring the image from a registry, or with "
                         "`helmr image bootstrap %s --from FILE`",
                         bootstrap->recipe.suite);
    *folder = arena_printf(bootstrap->arena, "%s/debian", bootstrap->scratch);
    memcpy(argv, fixed_arguments, sizeof fixed_arguments);
    argv[n++] = bootstrap->recipe.suite;
    argv[n++] = *folder;
    n = add_sources(bootstrap, argv, n);
    argv[n] = NULL;
    bootstrap_say(bootstrap, "making Debian %s with mmdebstrap", bootstrap->recipe.suite);
    return run_tool(bootstrap, argv, err) && strip(*folder, err) &&
           trust_host(bootstrap, *folder, err);
}
