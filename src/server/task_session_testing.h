/* For tests: sessions by their routes. */
#pragma once

#include "server/worker_testing.h"

/* A deployment and a key that may do everything with runs; "" when that fails. */
const char *session_prepare(struct service *service);

/* POST /api/sessions, and the same for a session of hello: its id, or "". */
int session_start(struct service *service, const char *key, const char *body);
const char *session_start_hello(struct service *service, const char *key, const char *more);

/* One exchange about a session: its status. */
int session_ask(struct service *service, const char *key, const char *method, const char *session,
                const char *rest, const char *body);
/* A column of the session as the API shows it; also left in the service's answer. */
const char *session_text(struct service *service, const char *key, const char *session,
                         const char *path);

/* A statement of the test's own about the one row with this id. */
bool session_change(struct service *service, const struct query *query, const char *id);

/* The time in so many milliseconds, as the API has it. */
const char *session_time(struct service *service, int64_t ms);
