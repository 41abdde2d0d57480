#include "engine/jail.h"

#include "engine/fixture.h"
#include "engine/host_state.h"

enum { USER = 212345, RUN_MS = 60000 };

struct scene {
    struct fixture fixture;
    struct engine_host *host;
    struct jail jail;
};

static void scene_close(struct scene *scene)
{
    struct error err = {0};

    jail_close(&scene->jail);
    if (scene->host && !cgroup_remove(&scene->host->cgroups, "jailed", &err))
        printf("# %s\n", err.text);
    fixture_host_close(&scene->host);
    fixture_close(&scene->fixture);
}

static bool scene_open(struct scene *scene, struct error *err)
{
    const struct cgroup_limits limits = {.memory_bytes = 64 << 20,
                                         .cpu_percent = 100,
                                         .processes = 32};

    if (!fixture_open(&scene->fixture))
        return error_errno(err, "make a folder");
    struct engine_settings settings = fixture_settings(&scene->fixture);
    return engine_host_open(&settings, &scene->host, err) &&
           cgroup_make(&scene->host->cgroups, "jailed", &limits, err) &&
           jail_open(&scene->jail, &scene->host->cgroups, "jailed", USER, err);
}

/* What a shell inside says, one line for each thing it tried. */
static bool inside(struct scene *scene, const char *script, struct buf *out, struct error *err)
{
    const char *const argv[] = {"/usr/bin/sh", "-c", script, NULL};
    const char *const env[] = {"PATH=/usr/bin", NULL};
    const struct process_spec spec = {.argv = argv,
                                      .env = env,
                                      .cwd = "/",
                                      .new_session = true,
                                      .new_pids = true,
                                      .prepare = jail_enter,
                                      .prepare_arg = &scene->jail};
    int status;

    bool ok = process_run(&spec, (struct str){0}, RUN_MS, out, NULL, &status, err);
    if (ok && out->len)
        printf("# %.*s", (int)out->len, out->bytes);
    return ok;
}

TEST(a_jail_shows_only_its_own_files)
{
    AUTO(scene_close) struct scene scene = {.jail = {.worker = -1}};
    AUTO(buf_finish) struct buf out = {.max = 4096};
    struct error err = {0};

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(scene_open(&scene, &err));
    CHECK(inside(&scene, "echo $(ls /) / $(ls /dev) / $(cat /proc/1/comm) $$ $PPID", &out, &err));
    CHECK(out.len && str_equal(str_trim(buf_str(&out), STR("\n")),
                               STR("dev lib lib64 proc usr / null urandom / sh 1 0")));
}

TEST(a_jailed_process_has_no_power)
{
    static const char script[] =
        "set -- $(grep -E '^(Uid|Gid|Groups|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs):' "
        "/proc/self/status)\n"
        "echo \"$*\"\n"
        "touch /file 2>/dev/null || touch /usr/file 2>/dev/null || touch /proc/file 2>/dev/null || "
        "echo read-only\n"
        "mount -t tmpfs none /proc 2>/dev/null || echo no mount\n"
        "test \"$(wc -l </proc/self/net/dev)\" = 3 && echo loopback only\n"
        "echo $(ulimit -n) $(ulimit -c) $(hostname)";
    AUTO(scene_close) struct scene scene = {.jail = {.worker = -1}};
    AUTO(buf_finish) struct buf out = {.max = 4096};
    struct error err = {0};

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(scene_open(&scene, &err));
    CHECK(inside(&scene, script, &out, &err));
    CHECK(out.len &&
          str_equal(buf_str(&out),
                    STR("Uid: 212345 212345 212345 212345 Gid: 212345 212345 212345 212345 Groups: "
                        "CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: "
                        "0000000000000000 CapAmb: 0000000000000000 NoNewPrivs: 1\n"
                        "read-only\nno mount\nloopback only\n1024 0 helmr-jail\n")));
}

TEST(nothing_starts_in_a_jail_whose_worker_is_gone)
{
    AUTO(scene_close) struct scene scene = {.jail = {.worker = -1}};
    AUTO(buf_finish) struct buf out = {.max = 4096};
    struct error err = {0};

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(scene_open(&scene, &err));
    struct process other = {.pidfd = -1};
    const struct process_spec spec = {
        .argv = (const char *const[]){"true", NULL}
    };
    int status;
    CHECK(process_start(&spec, &other, &err));
    int stand_in = dup(other.pidfd);
    CHECK(process_wait(&other, RUN_MS, &status, &err));
    CHECK(stand_in >= 0 && dup2(stand_in, scene.jail.worker) >= 0);
    close(stand_in);
    CHECK(!inside(&scene, "true", &out, &err) && err.code == ERR_CANCELLED);
}

ENGINE_TEST_MAIN()
