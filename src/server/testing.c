#include "server/testing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/server.h"
#include "server/session.h"
#include "store/queries.h"

enum { ANSWER_MAX = 64 * 1024 * 1024, TIMEOUT_MS = 30 * 1000 };

static struct service *broken(const char *what, const struct error *err)
{
    printf("# %s: %s\n", what, err->text);
    exit(1);
}

static void *serve(void *arg)
{
    struct service *service = arg;
    struct error err;
    if (!server_run(service->server, &err))
        broken("the server stopped", &err);
    return NULL;
}

static void configure(struct service *service)
{
    service->config = (struct server_config){
        .data_dir = service->data_dir,
        .database_url = service->fixture.url,
        .database_pool = 16,
        .store_dir = arena_printf(&service->arena, "%s/store", service->data_dir),
        .address = "127.0.0.1:0",
        .preview_url = "http://previews.localhost",
        .preview_address = "127.0.0.1:0",
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

static void find_environments(struct service *service)
{
    struct error err;
    struct rows production, staging;
    AUTO_TX tx = NULL;
    if (!store_begin_read(service->server->store, &tx, &err) ||
        !STORE(tx, &environment_find, &service->arena, &production, &err,
               V_TEXT(service->server->organization_id), V_TEXT("main"), V_TEXT("production")) ||
        !STORE(tx, &environment_find, &service->arena, &staging, &err,
               V_TEXT(service->server->organization_id), V_TEXT("main"), V_TEXT("staging")))
        broken("environments", &err);
    row_id(&production, 0, ENVIRONMENT_FIND_ID, service->environment_id);
    row_id(&staging, 0, ENVIRONMENT_FIND_ID, service->staging_id);
}

static struct service *service_create(void)
{
    struct service *service = calloc(1, sizeof *service);
    if (!service)
        abort();
    log_setup(LOG_ERROR, LOG_TEXT, "test");
    snprintf(service->data_dir, sizeof service->data_dir, "/tmp/helmr-server-XXXXXX");
    if (!mkdtemp(service->data_dir))
        abort();
    return service;
}

static struct service *service_open(struct service *service)
{
    struct error err;
    if (!server_seed_keys(service->data_dir, &err) ||
        !server_create(&service->config, &service->server, &err))
        return broken("server", &err);
    find_environments(service);
    if (pthread_create(&service->thread, NULL, serve, service) != 0)
        abort();
    snprintf(service->url, sizeof service->url, "http://127.0.0.1:%d",
             server_port(service->server));
    if (!http_client_create(service->url, &service->client, &err))
        return broken("client", &err);
    return service;
}

static void remove_data(const char *data_dir)
{
    struct error err;
    AUTO_FD int parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!tree_remove(parent, strrchr(data_dir, '/') + 1, &err))
        broken("clean up", &err);
}

struct service *service_start(enum store_engine engine, const char **skip)
{
    struct error err;
    struct service *service = service_create();
    *skip = NULL;
    if (!fixture_init(&service->fixture, engine, skip, &err)) {
        remove_data(service->data_dir);
        free(service);
        return *skip ? NULL : broken("fixture", &err);
    }
    configure(service);
    return service_open(service);
}

struct service *service_start_beside(const struct service *first)
{
    struct error err;
    struct service *service = service_create();
    AUTO_FREE char *key = NULL;
    service->is_guest = true;
    service->fixture = first->fixture;
    configure(service);
    if (!file_read(arena_printf(&service->arena, "%s/keys/master", first->data_dir), 256, &key,
                   &err))
        return broken("master key", &err);
    service->config.master_key = secret_create(str_of(key));
    return service_open(service);
}

void service_stop(struct service *service)
{
    http_client_destroy(service->client);
    server_stop(service->server);
    pthread_join(service->thread, NULL);
    server_destroy(service->server);
    server_config_finish(&service->config);
    remove_data(service->data_dir);
    if (!service->is_guest)
        fixture_finish(&service->fixture);
    buf_finish(&service->answer.body);
    arena_finish(&service->arena);
    free(service);
}

static void note_header(void *arg, struct str name, struct str value)
{
    struct service *service = arg;
    if (str_equal_nocase(name, STR("set-cookie")))
        snprintf(service->set_cookie, sizeof service->set_cookie, "%.*s", (int)value.len,
                 value.ptr);
}

int service_send(struct service *service, const char *token, const struct http_request *request)
{
    struct error err;
    struct http_request sent = *request;
    AUTO(secret_finish) struct secret secret = {0};
    if (token)
        secret = secret_create(str_of(token));
    http_client_set_bearer(service->client, token ? &secret : NULL);

    buf_finish(&service->answer.body);
    service->answer = (struct http_answer){.body.max = ANSWER_MAX};
    service->set_cookie[0] = '\0';
    if (!sent.on_header) {
        sent.on_header = note_header;
        sent.on_header_arg = service;
    }
    if (!sent.timeout_ms)
        sent.timeout_ms = TIMEOUT_MS;
    bool ok = http_client_send(service->client, &sent, &service->answer, &err);
    http_client_set_bearer(service->client, NULL);
    if (!ok)
        printf("# %s %s: %s\n", request->method, request->path, err.text);
    return ok ? service->answer.status : -1;
}

int service_ask(struct service *service, const char *token, const char *method, const char *path,
                const char *body)
{
    const struct http_request request = {.method = method,
                                         .path = path,
                                         .body = body ? str_of(body) : (struct str){0}};
    return service_send(service, token, &request);
}

const char *service_text(struct service *service, const char *path)
{
    struct str value;
    if (!json_find_text(buf_str(&service->answer.body), path, &service->arena, &value))
        return "";
    return arena_text(&service->arena, value);
}

int64_t service_int(struct service *service, const char *path)
{
    int64_t value;
    return json_find_int(buf_str(&service->answer.body), path, &value) ? value : -1;
}

bool service_sign_in(struct service *service)
{
    static const char name[] = SESSION_COOKIE "=";
    if (service_ask(service, NULL, "POST", "/api/auth/dev/login", "") != 200 ||
        strncmp(service->set_cookie, name, sizeof name - 1) != 0)
        return false;
    const char *token = service->set_cookie + sizeof name - 1;
    snprintf(service->session, sizeof service->session, "%.*s", (int)strcspn(token, ";"), token);
    return true;
}

const char *service_make_key(struct service *service, const char *scopes)
{
    const char *body = arena_printf(&service->arena,
                                    "{\"name\":\"test\",\"expires_in_days\":30,"
                                    "\"permissions\":[{\"scopes\":[%s]}]}",
                                    scopes);
    if (!service->session[0] && !service_sign_in(service))
        return "";
    if (service_ask(service, service->session, "POST", "/api/api-keys", body) != 201)
        return "";
    return service_text(service, "raw_key");
}

bool service_open_session(struct service *service, struct person *person, struct error *err)
{
    AUTO_TX tx = NULL;
    return store_begin(service->server->store, &tx, err) &&
           session_open(tx, service->server, person->id, person->session, err) &&
           store_commit(&tx, err);
}

bool service_join(struct service *service, const char *role, struct person *person,
                  struct error *err)
{
    int64_t now = time_now_ms();
    AUTO_TX tx = NULL;
    id_make(person->id);
    const char *email = arena_printf(&service->arena, "%s@example.org", person->id);
    return store_begin(service->server->store, &tx, err) &&
           STORE(tx, &user_insert, NULL, NULL, err, V_TEXT(person->id), V_TEXT(email), V_TEXT(role),
                 V_INT(now)) &&
           STORE(tx, &member_insert, NULL, NULL, err, V_TEXT(service->server->organization_id),
                 V_TEXT(person->id), V_TEXT(role), V_INT(now)) &&
           store_commit(&tx, err) && service_open_session(service, person, err);
}

static bool insert_task(struct tx *tx, struct service *service, const char *sandbox_id,
                        const char *name, bool accepts, const char *secrets, struct error *err)
{
    char id[ID_TEXT];
    id_make(id);
    const char *queue = arena_printf(&service->arena, "task/%s", name);
    return STORE(tx, &deployment_task_insert, NULL, NULL, err, V_TEXT(id),
                 V_TEXT(service->environment_id), V_TEXT(service->deployment_id),
                 V_TEXT(sandbox_id), V_TEXT(name), V_TEXT("box"), V_TEXT("tasks/hello.ts"),
                 V_TEXT(name), V_INT(accepts), V_INT(900), V_TEXT(queue), V_NULL, V_NULL,
                 V_TEXT(secrets), V_TEXT("[]"), V_INT(0), V_NULL, V_NULL);
}

static bool insert_deployment(struct tx *tx, struct service *service, struct error *err)
{
    const char *hash = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
    const char *id = service->deployment_id;
    int64_t now = time_now_ms();
    return STORE(tx, &deployment_insert, NULL, NULL, err, V_TEXT(id),
                 V_TEXT(service->environment_id), V_TEXT("20260101.1"), V_TEXT("20260101"),
                 V_INT(1), V_TEXT(hash), V_TEXT(hash + 7), V_INT(1), V_INT(2), V_NULL, V_NULL,
                 V_INT(0), V_TEXT(API_VERSION), V_NULL, V_NULL, V_INT(now)) &&
           STORE(tx, &deployment_deploy, NULL, NULL, err, V_TEXT(id), V_TEXT("queued"), V_INT(now),
                 V_TEXT("{}"), V_NULL, V_NULL, V_NULL, V_TEXT("[]"), V_NULL) &&
           STORE(tx, &deployment_queue_insert, NULL, NULL, err, V_TEXT(id), V_TEXT("narrow"),
                 V_INT(2)) &&
           STORE(tx, &environment_promote, NULL, NULL, err, V_TEXT(service->environment_id),
                 V_TEXT(id), V_INT(now));
}

bool service_deploy(struct service *service, struct error *err)
{
    char sandbox_id[ID_TEXT];
    AUTO_TX tx = NULL;
    id_make(service->deployment_id);
    id_make(sandbox_id);
    return store_begin(service->server->store, &tx, err) && insert_deployment(tx, service, err) &&
           STORE(tx, &deployment_sandbox_insert, NULL, NULL, err, V_TEXT(sandbox_id),
                 V_TEXT(service->environment_id), V_TEXT(service->deployment_id), V_TEXT("box"),
                 V_TEXT("fingerprint"), V_INT(1), V_TEXT("sha256:1111"), V_INT(1), V_TEXT("[]"),
                 V_TEXT("{}"), V_TEXT("/workspace"), V_INT(1000), V_INT(512), V_INT(1024),
                 V_TEXT("{\"internet\":true}"), V_NULL, V_TEXT("image")) &&
           insert_task(tx, service, sandbox_id, "hello", true, "[]", err) &&
           insert_task(tx, service, sandbox_id, "plain", false, "[]", err) &&
           insert_task(tx, service, sandbox_id, "secretive", true,
                       "[{\"name\":\"TOKEN\",\"placement\":\"env\",\"target\":\"TOKEN\"}]", err) &&
           store_commit(&tx, err);
}

const char *service_create_run(struct service *service, const char *token)
{
    if (service_ask(service, token, "POST", "/api/runs",
                    "{\"task_id\":\"hello\",\"payload\":{\"name\":\"you\"}}") != 201) {
        printf("# %.*s\n", (int)service->answer.body.len, service->answer.body.bytes);
        return "";
    }
    return service_text(service, "id");
}
