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
           unsetenv("HELMR_WORKER_ARTIFACT_CACHE_MAX_MIB") == 0 &&
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

TEST_MAIN()
