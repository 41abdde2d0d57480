/* One conversation with a server: its address, the credential, and the scope all paths are in.
 *
 * Answers live in the arena until api_finish. An error of the server is its text and code; one
 * of the network says what to do next.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/command.h"
#include "http/client.h"

#define API_VERSION_HEADER "Helmr-API-Version: 2026-06-06"
#define CLI_VERSION_HEADER "Helmr-CLI-Version: " HELMR_VERSION

enum { API_BODY_MAX = 65536 }; /* of small requests */

enum api_need {
    API_ANY,   /* a key or a login */
    API_LOGIN, /* a person: a key is not used even when it is set */
};

struct api {
    struct http_client *client;
    struct arena arena;
    const char *url;     /* of the server, for links */
    const char *prefix;  /* "/api" or "/api/projects/P/environments/E" */
    const char *project; /* of the config file when the server does not have it, else NULL */
    bool is_key;
};

/* `directory` is where the project's configuration is looked for, upwards; NULL: here. */
bool api_open(const struct invocation *invocation, enum api_need need, const char *directory,
              struct api *api, struct error *err) MUST_USE;
void api_finish(struct api *api);

/* A path below the scope: api_path(api, "/runs/%s", id). Parts that users name go through
 * api_part first. */
const char *api_path(struct api *api, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *api_part(struct api *api, const char *text);

/* A flag that is a parameter of the request; a list of them ends with {0}. */
struct api_flag {
    const char *option, *parameter;
};

/* `first` ("" or "?status=all") and the flags that were given, in the form of a query. */
const char *api_query(struct api *api, const struct invocation *invocation,
                      const struct api_flag *flags, const char *first);

/* "/api/projects/P" of the scope, or of the server's default project. */
bool api_project(struct api *api, const char **path, struct error *err) MUST_USE;

/* True for 2xx; *answer may be NULL. A GET is tried again when the connection breaks. */
bool api_send(struct api *api, const char *method, const char *path, struct str body,
              struct str *answer, struct error *err) MUST_USE;

/* The same with everything else a request can have. */
bool api_exchange(struct api *api, const struct http_request *request, struct str *answer,
                  struct error *err) MUST_USE;

/* What to do about an error of the network; for requests that are made without api_send. */
bool api_explain(const struct api *api, struct error *err);

/* The text and code out of an error's body. Returns false. */
bool api_refused(const struct api *api, int status, struct str body, struct error *err);
