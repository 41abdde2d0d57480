/* For tests: the whole server on a thread of this process, with an empty data directory and
 * an empty database on either engine, and a client that talks to it over loopback.
 */
#pragma once

#include <pthread.h>

#include "base/arena.h"
#include "http/client.h"
#include "server/context.h"
#include "store/store_fixture.h"

struct service {
    struct fixture fixture;
    struct server_config config;
    struct server *server;
    struct http_client *client;
    struct http_answer answer; /* of the last exchange */
    struct arena arena;
    pthread_t thread;
    char data_dir[64], url[64];
    bool is_guest;            /* the database is another's */
    char session[TOKEN_TEXT]; /* of the local owner */
    char set_cookie[256];     /* of the last answer */
    char environment_id[ID_TEXT], staging_id[ID_TEXT];
    char deployment_id[ID_TEXT]; /* after service_deploy */
};

/* NULL when this machine cannot; *skip says why. Fails loudly when something is broken. */
struct service *service_start(enum store_engine engine, const char **skip);
void service_stop(struct service *service);

/* A second server on the same database with the same master key; PostgreSQL only. Stop it first. */
struct service *service_start_beside(const struct service *first);

/* One exchange; the status, or -1. A token of NULL sends none. */
int service_ask(struct service *service, const char *token, const char *method, const char *path,
                const char *body);
int service_send(struct service *service, const char *token, const struct http_request *request);

/* Looks into the last answer. An absent text is "", an absent number -1. */
const char *service_text(struct service *service, const char *path);
int64_t service_int(struct service *service, const char *path);

/* Signs the local owner in by the API; false when that fails. */
bool service_sign_in(struct service *service);
/* A key of the default environment with these scopes (JSON texts, comma between). */
const char *service_make_key(struct service *service, const char *scopes);

/* Another member with this role, and a session of theirs. */
struct person {
    char id[ID_TEXT], session[TOKEN_TEXT];
};
bool service_join(struct service *service, const char *role, struct person *person,
                  struct error *err) MUST_USE;
/* One more session of the same person. */
bool service_open_session(struct service *service, struct person *person,
                          struct error *err) MUST_USE;

/* A deployed, current deployment put in by the store's own queries. Tasks: `hello` takes a
 * payload, `plain` takes none, `secretive` declares a secret. Queue `narrow` has a limit. */
bool service_deploy(struct service *service, struct error *err) MUST_USE;

/* Creates a run of `hello` and returns its id, or "". */
const char *service_create_run(struct service *service, const char *token);
