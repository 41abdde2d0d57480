#include "cli/upload.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "base/test.h"
#include "cli/testing.h"

static struct error err;
static struct arena arena;
static char skipped[256];

static void note(void *arg, const char *path, const char *target)
{
    (void)arg;
    snprintf(skipped, sizeof skipped, "%s -> %s", path, target);
}

static const char *at(const char *root, const char *name)
{
    return arena_printf(&arena, "%s/%s", root, name);
}

static bool put(const char *root, const char *name, const char *text, mode_t mode)
{
    return file_publish(at(root, name), str_of(text), mode, &err) &&
           chmod(at(root, name), mode) == 0;
}

/* A project with everything that matters, written in another order each time. */
static const char *make_project(bool backwards)
{
    char *root = arena_alloc(&arena, TEMPORARY_TEXT);
    bool ok = temporary_make(root) &&
              directory_make(at(root, "tasks/deep"), backwards ? 0700 : 0755, &err) &&
              directory_make(at(root, "node_modules/x"), 0755, &err) &&
              directory_make(at(root, "tasks/.git"), 0755, &err);

    for (int i = 0; ok && i < 3; i++) {
        switch (backwards ? 2 - i : i) {
        case 0: ok = put(root, "package.json", "{}", backwards ? 0600 : 0644); break;
        case 1: ok = put(root, "tasks/deep/run.sh", "#!/bin/sh\n", backwards ? 0700 : 0755); break;
        default: ok = put(root, "tasks/a.ts", "export {}\n", 0644); break;
        }
    }
    ok = ok && put(root, "node_modules/x/index.js", "1", 0644) && put(root, ".env", "A=1", 0644) &&
         put(root, ".env.local", "A=1", 0644) && put(root, "tasks/.git/HEAD", "x", 0644) &&
         symlink("deep/run.sh", at(root, "tasks/link")) == 0 &&
         symlink("/etc/passwd", at(root, "outside")) == 0;
    return ok ? root : NULL;
}

static bool create(const char *root, struct upload *upload)
{
    const struct upload_request request = {.root = root, .skipped = note};

    return upload_create(&request, upload, &err);
}

/* What an ordinary tar says about it; the archive stands between the first part and the last
 * boundary. */
static bool list(const struct upload *upload, struct buf *out)
{
    static const char *const argv[] = {"tar", "--numeric-owner", "-tvf", "-", NULL};
    const struct process_spec spec = {
        .argv = argv, .env = (const char *const[]){"TZ=UTC", "PATH=/usr/bin:/bin", NULL}
    };
    AUTO_FREE char *bytes = alloc(upload->len);
    int status = -1;

    if (pread(upload->fd, bytes, upload->len, 0) != (ssize_t)upload->len)
        return false;
    const char *start = memmem(bytes, upload->len, "source.v0.tar\r\n\r\n", 17);
    struct str tar = {start ? start + 17 : NULL, upload->tar_len};

    return start && process_run(&spec, tar, 10000, out, NULL, &status, &err) && status == 0;
}

TEST(the_same_files_make_the_same_archive)
{
    AUTO(upload_finish) struct upload first = {.fd = -1}, second = {.fd = -1};
    const char *one = make_project(false), *other = make_project(true);

    CHECK(one && other);
    CHECK(create(one, &first) && create(other, &second));
    CHECK_STR(first.content_hash, second.content_hash);
    CHECK(strncmp(first.content_hash, "sha256:", 7) == 0 && strlen(first.content_hash) == 71);

    /* … and one byte more makes another. */
    CHECK(put(other, "tasks/a.ts", "export {};\n", 0644));
    upload_finish(&second);
    CHECK(create(other, &second));
    CHECK(strcmp(first.content_hash, second.content_hash) != 0);
    CHECK(temporary_remove(one) && temporary_remove(other));
}

TEST(an_ordinary_tar_reads_it_and_finds_only_what_belongs_there)
{
    AUTO(upload_finish) struct upload upload = {.fd = -1};
    AUTO(buf_finish) struct buf out = {.max = 4096};
    const char *root = make_project(true);

    CHECK(root && create(root, &upload) && list(&upload, &out));
    char *text = arena_text(&arena, buf_str(&out));
    CHECK_STR(text, "-rw-r--r-- 0/0               2 1970-01-01 00:00 package.json\n"
                    "drwxr-xr-x 0/0               0 1970-01-01 00:00 tasks/\n"
                    "-rw-r--r-- 0/0              10 1970-01-01 00:00 tasks/a.ts\n"
                    "drwxr-xr-x 0/0               0 1970-01-01 00:00 tasks/deep/\n"
                    "-rwxr-xr-x 0/0              10 1970-01-01 00:00 tasks/deep/run.sh\n"
                    "lrwxr-xr-x 0/0               0 1970-01-01 00:00 tasks/link -> deep/run.sh\n");
    CHECK_STR(skipped, "outside -> /etc/passwd");
    CHECK(temporary_remove(root));
}

TEST(names_longer_than_a_header_survive)
{
    AUTO(upload_finish) struct upload upload = {.fd = -1};
    AUTO(buf_finish) struct buf out = {.max = 65536};
    char root[TEMPORARY_TEXT], name[121];

    memset(name, 'n', 120);
    name[120] = '\0';
    const char *folder = arena_printf(&arena, "%s/%s/%s", name, name, name);
    CHECK(temporary_make(root) && directory_make(at(root, folder), 0755, &err));
    const char *file = arena_printf(&arena, "%s/\xc3\xa9t\xc3\xa9", folder);
    CHECK(put(root, file, "x", 0644));
    CHECK(symlink(name, at(root, "short")) == 0);
    CHECK(create(root, &upload) && list(&upload, &out));
    CHECK(memmem(out.bytes, out.len, folder, strlen(folder)) != NULL);
    CHECK(memmem(out.bytes, out.len, "short -> ", 9) != NULL);
    CHECK(temporary_remove(root));
}

TEST(a_pipe_is_refused_by_name)
{
    AUTO(upload_finish) struct upload upload = {.fd = -1};
    char root[TEMPORARY_TEXT];

    CHECK(temporary_make(root) && mkfifo(at(root, "pipe"), 0600) == 0);
    CHECK(!create(root, &upload));
    CHECK_STR(err.text, "pipe is a socket, pipe or device: remove it from the project");
    CHECK(temporary_remove(root));
}

TEST(the_form_carries_the_hash_and_the_variables)
{
    AUTO(upload_finish) struct upload upload = {.fd = -1};
    char root[TEMPORARY_TEXT], head[1024] = "";
    const struct env_pair env[] = {
        {"TOKEN", "a\"b"},
    };
    const struct upload_request request = {.root = root, .env = env, .n_env = 1, .no_cache = true};

    CHECK(temporary_make(root) && upload_create(&request, &upload, &err));
    CHECK(pread(upload.fd, head, sizeof head - 1, 0) > 0);
    CHECK(strstr(head, upload.content_hash) != NULL);
    CHECK(strstr(head, "\"no_cache\":true") && strstr(head, "\"env\":{\"TOKEN\":\"a\\\"b\"}"));
    CHECK(strstr(upload.content_type, "multipart/form-data; boundary=") == upload.content_type);
    CHECK(temporary_remove(root));
}

TEST_MAIN()
