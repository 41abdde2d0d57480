#include "worker/settings.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "base/test.h"

struct home {
    char path[32], docker[64], file[96];
};

/* A home of its own with Docker's file in it, and none of this process's settings. */
static bool home_init(struct home *home)
{
    struct error err;

    *home = (struct home){.path = "/tmp/helmr-home-XXXXXX"};
    if (!mkdtemp(home->path))
        return false;
    (void)snprintf(home->docker, sizeof home->docker, "%s/.docker", home->path);
    (void)snprintf(home->file, sizeof home->file, "%s/config.json", home->docker);
    return setenv("HOME", home->path, 1) == 0 && setenv("HELMR_DATA_DIR", home->path, 1) == 0 &&
           unsetenv("DOCKER_CONFIG") == 0 && unsetenv("HELMR_REGISTRY_AUTH_FILE") == 0 &&
           unsetenv("HELMR_WORKER_ARTIFACT_CACHE_MAX_MIB") == 0 && unsetenv("HELMR_ENGINE") == 0 &&
           unsetenv("HELMR_WORKER_BUILD_ENGINE") == 0 && unsetenv("HELMR_WORKER_QEMU_ACCEL") == 0 &&
           directory_make(home->docker, 0700, &err) &&
           file_publish(home->file, STR("{}"), 0600, &err);
}

static void home_finish(struct home *home)
{
    struct error err;

    if (!folder_remove(home->path, &err))
        printf("# left behind: %s\n", home->path);
}

static bool read_host(struct worker_settings *settings)
{
    struct error err;

    if (worker_settings_read_host(NULL, settings, &err))
        return true;
    printf("# %s\n", err.text);
    return false;
}

TEST(registry_credentials_are_where_docker_keeps_them_unless_told_otherwise)
{
    AUTO(home_finish) struct home home = {0};
    AUTO(worker_settings_finish) struct worker_settings settings = {0};

    CHECK(home_init(&home) && read_host(&settings));
    CHECK_STR(settings.registry_auth_file, home.file);
    CHECK(setenv("DOCKER_CONFIG", "/nowhere", 1) == 0 && read_host(&settings));
    CHECK_STR(settings.registry_auth_file, "");
    CHECK(setenv("DOCKER_CONFIG", home.docker, 1) == 0 && read_host(&settings));
    CHECK_STR(settings.registry_auth_file, home.file);
    /* A file that was named is used, or missed, under its own name. */
    CHECK(setenv("HELMR_REGISTRY_AUTH_FILE", "/run/own.json", 1) == 0 && read_host(&settings));
    CHECK_STR(settings.registry_auth_file, "/run/own.json");
}

TEST(the_artifact_budget_is_a_number_of_mebibytes)
{
    AUTO(home_finish) struct home home = {0};
    AUTO(worker_settings_finish) struct worker_settings settings = {0};
    struct error err;

    CHECK(home_init(&home) && read_host(&settings) && settings.artifact_cache_max_mib == 0);
    CHECK(setenv("HELMR_WORKER_ARTIFACT_CACHE_MAX_MIB", "2048", 1) == 0 && read_host(&settings));
    CHECK(settings.artifact_cache_max_mib == 2048);
    CHECK(setenv("HELMR_WORKER_ARTIFACT_CACHE_MAX_MIB", "63", 1) == 0);
    CHECK(!worker_settings_read_host(NULL, &settings, &err));
    CHECK(strstr(err.text, "HELMR_WORKER_ARTIFACT_CACHE_MAX_MIB"));
}

TEST(engines_are_called_by_their_names)
{
    AUTO(home_finish) struct home home = {0};
    AUTO(worker_settings_finish) struct worker_settings settings = {0};

    CHECK(home_init(&home) && read_host(&settings));
    CHECK_STR(settings.engine, "auto");
    CHECK_STR(settings.build_engine, "auto");
    CHECK(setenv("HELMR_ENGINE", "qemu", 1) == 0 &&
          setenv("HELMR_WORKER_BUILD_ENGINE", "gvisor", 1) == 0 && read_host(&settings));
    CHECK_STR(settings.engine, "qemu");
    CHECK_STR(settings.build_engine, "gvisor");
    CHECK(settings.qemu_accel == QEMU_ACCEL_AUTO);
}

TEST(qemu_without_kvm_is_only_for_who_asked_for_qemu)
{
    AUTO(home_finish) struct home home = {0};
    AUTO(worker_settings_finish) struct worker_settings settings = {0};

    CHECK(home_init(&home) && setenv("HELMR_WORKER_QEMU_ACCEL", "tcg", 1) == 0);
    CHECK(read_host(&settings) && settings.qemu_accel == QEMU_ACCEL_KVM);
    CHECK(setenv("HELMR_ENGINE", "qemu", 1) == 0);
    CHECK(read_host(&settings) && settings.qemu_accel == QEMU_ACCEL_TCG);
}

TEST(a_wrong_word_for_an_engine_is_refused_by_the_name_of_its_variable)
{
    static const char *const variables[] = {"HELMR_ENGINE", "HELMR_WORKER_BUILD_ENGINE",
                                            "HELMR_WORKER_QEMU_ACCEL"};
    AUTO(home_finish) struct home home = {0};
    AUTO(worker_settings_finish) struct worker_settings settings = {0};
    struct error err;

    CHECK(home_init(&home));
    for (size_t i = 0; i < COUNT_OF(variables); i++) {
        CHECK(setenv(variables[i], "docker", 1) == 0);
        CHECK(!worker_settings_read_host(NULL, &settings, &err) && strstr(err.text, variables[i]));
        CHECK(unsetenv(variables[i]) == 0);
    }
    CHECK(read_host(&settings));
}

TEST(who_is_not_root_opens_the_network_by_name_only)
{
    static const struct {
        const char *given;
        bool is_root;
        const char *profile; /* NULL: refused */
        bool is_open;
    } rows[] = {
        {"",            true,  "helmr-v1",    false},
        {"helmr-v1",    true,  "helmr-v1",    false},
        {"house",       true,  "house",       false},
        {"user-v1",     true,  NULL,          false},
        {"",            false, "user-v1-off", false},
        {"user-v1",     false, "user-v1",     true },
        {"helmr-v1",    false, NULL,          false},
        {"user-v1-off", false, NULL,          false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char profile[SETTING_PROFILE] = "";
        struct error err = {0};
        bool is_open;
        bool ok = settings_profile(rows[i].given, rows[i].is_root, profile, &is_open, &err);

        CHECK(ok == (rows[i].profile != NULL));
        CHECK(!ok || (strcmp(profile, rows[i].profile) == 0 && is_open == rows[i].is_open));
        CHECK(ok || (err.code == ERR_INVALID && strstr(err.text, "HELMR_WORKER_CNI_PROFILE")));
    }
}

TEST_MAIN()
