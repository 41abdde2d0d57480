#include "server/server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"
#include "server/service_suite.h"

enum { START_MS = 20 * 1000 };

static void configure(struct server_config *config, struct arena *arena, const char *data_dir)
{
    *config = (struct server_config){
        .data_dir = data_dir,
        .database_url = arena_printf(arena, "sqlite:%s/helmr.db", data_dir),
        .store_dir = arena_printf(arena, "%s/store", data_dir),
        .address = "127.0.0.1:0",
        .worker_groups = "default",
        .dev_login = true,
        .lease_ttl_ms = 60000,
        .cancel_grace_ms = 30000,
        .hot_time_ms = 5000,
        .workspace_idle_ms = 300000,
        .checkpoint_retention_ms = 86400000,
        .versions_kept = 10,
        .max_dispatches = 10,
    };
}

/* The status of /readyz over the server's own socket; -1 while nobody answers. */
static int ask_ready(const char *data_dir)
{
    struct error err;
    struct http_client *client = NULL;
    struct http_answer answer = {.body.max = 4096};
    char url[128];
    snprintf(url, sizeof url, "unix:%s/run/server.sock", data_dir);
    const struct http_request request = {.method = "GET", .path = "/readyz", .timeout_ms = 5000};
    int status = -1;
    if (http_client_create(url, &client, &err) && http_client_send(client, &request, &answer, &err))
        status = answer.status;
    http_client_destroy(client);
    buf_finish(&answer.body);
    return status;
}

static int wait_until_ready(const char *data_dir)
{
    int status = -1;
    int64_t end = time_boot_ms() + START_MS;
    while ((status = ask_ready(data_dir)) < 0 && time_boot_ms() < end)
        usleep(10 * 1000);
    return status;
}

static pid_t start_process(const struct server_config *config)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct error err;
        log_setup(LOG_ERROR, LOG_TEXT, "test");
        _exit(server_main(config, &err) ? 0 : 1);
    }
    return pid;
}

TEST(a_signal_ends_the_server_in_good_order)
{
    struct error err;
    AUTO(arena_finish) struct arena arena = {0};
    struct server_config config;
    char data_dir[] = "/tmp/helmr-process-XXXXXX";
    CHECK(mkdtemp(data_dir));
    configure(&config, &arena, data_dir);
    CHECK(server_seed_keys(data_dir, &err));
    for (int round = 0; round < 2; round++) {
        pid_t pid = start_process(&config);
        int ready = wait_until_ready(data_dir), status = -1;
        kill(pid, SIGTERM);
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(ready == 200);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(ask_ready(data_dir) == -1);
    }
    AUTO_FD int parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(tree_remove(parent, data_dir + 5, &err));
}

TEST(a_second_server_on_the_same_data_directory_is_refused)
{
    const char *skip;
    struct error err;
    struct server *second = NULL;
    struct service *service = service_start(ON_SQLITE, &skip);
    CHECK(service);
    bool ok = server_create(&service->config, &second, &err);
    service_stop(service);
    CHECK(!ok && err.code == ERR_CONFLICT);
    CHECK(strstr(err.text, "another server"));
}

TEST(a_database_of_another_master_key_is_refused)
{
    struct error err;
    AUTO(arena_finish) struct arena arena = {0};
    struct server_config config;
    struct server *server = NULL;
    const char *skip;
    struct service *service = service_start(ON_SQLITE, &skip);
    CHECK(service && *service_make_key(service, "\"runs:read\""));
    char data_dir[] = "/tmp/helmr-process-XXXXXX";
    CHECK(mkdtemp(data_dir));
    configure(&config, &arena, data_dir);
    config.database_url = service->config.database_url;
    CHECK(server_seed_keys(data_dir, &err));
    bool ok = server_create(&config, &server, &err);
    service_stop(service);
    CHECK(!ok && strstr(err.text, "another master key"));
    AUTO_FD int parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(tree_remove(parent, data_dir + 5, &err));
}

TEST_MAIN()
