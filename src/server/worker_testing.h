/* For tests: a worker as the server sees one. It speaks the workers' API over HTTP, holds what a
 * worker holds, and runs nothing.
 */
#pragma once

#include "blob/seal_writer.h"
#include "server/testing.h"

/* The permissions of who deploys and runs; a test appends what it wants besides. */
#define OPERATOR "\"runs:create\",\"runs:read\",\"runs:manage\",\"tasks:deploy\""

/* The end of a report: the task's own fault. */
#define TASK_FAILED                                                                          \
    ",\"failure\":{\"layer\":\"task_process\",\"failure_kind\":\"task_failed\",\"message\":" \
    "\"no\"}"

/* A statement of the test's own about the row with this id, for service_change. */
#define CHANGE(name, sql) static const struct query name = {"test_" #name, 1, 0, SAME_ON_BOTH(sql)}

enum { BEARER_TEXT = 512 };

struct test_worker {
    struct service *service;
    const char *name, *machine, *grade; /* grade NULL: user-kernel */
    const char *roles;                  /* a JSON list; NULL: both */
    const char *privilege;              /* NULL: root */
    const char *compat, *key_id;        /* of its checkpoints; NULL: it makes none */
    char id[ID_TEXT], credential[TOKEN_TEXT], bearer[BEARER_TEXT];
    int64_t epoch, cursor;
    /* of the newest grant */
    char lease[ID_TEXT], subject[ID_TEXT];
    int64_t sequence, attempt, expires_ms;
    /* of the wait that is parked or resumed */
    char wait[ID_TEXT], checkpoint[ID_TEXT];
    int64_t resume_version;
};

/* The room of a poll. */
struct test_room {
    int64_t cpu_millis, memory_mib, disk_mib, slots, build_slots;
};
extern const struct test_room large_room;

/* Each is one exchange and returns its status. */
int worker_register(struct test_worker *worker, const char *token);
int worker_open(struct test_worker *worker); /* a session, as each start of the process makes one */
int worker_activate_as(struct test_worker *worker, const char *grade);
int worker_beat_now(struct test_worker *worker, const char *instances);

/* All three; false when one fails. */
bool worker_join(struct test_worker *worker, struct service *service, const char *name);

/* accept is a JSON list; the grants are in the service's answer. */
int worker_poll(struct test_worker *worker, const char *accept, const struct test_room *room,
                int64_t wait_ms, const char *known);

/* Polls without waiting and keeps the one grant there must be. */
bool worker_take(struct test_worker *worker, const char *kind);

/* POST of /api/worker/<route>, and of /api/worker/leases/<lease>/<verb> with the fence of the
 * newest grant before the members in `more` ("" or ",\"name\":value…"). */
int worker_post(struct test_worker *worker, const char *route, const char *body);
int lease_post(struct test_worker *worker, const char *verb, const char *more);

/* The usual life of a lease: to starting, to running, to the end. */
int lease_begin(struct test_worker *worker);
int lease_start(struct test_worker *worker);
int lease_report(struct test_worker *worker, const char *outcome, const char *more);

/* The steps of a park, with two objects of its own; and that the program has the answer. */
int checkpoint_begin(struct test_worker *worker, const char *wait);
int checkpoint_stage(struct test_worker *worker);
int checkpoint_ready(struct test_worker *worker);
int checkpoint_abort(struct test_worker *worker);
int lease_resumed(struct test_worker *worker, const char *mode);

/* One operation of the program, by its number: wait.open, token.create. The result is in the
 * answer as results.0; true when it says ok. */
bool lease_op(struct test_worker *worker, int64_t op, const char *kind, const char *body);

/* A run of hello, taken by the worker and started; false when a step fails. */
bool worker_carry(struct test_worker *worker, const char *key);

/* A source like no other, uploaded: the id of its queued deployment, or "". */
const char *service_upload(struct service *service, const char *key);

/* What a build of `service_build` brings. Tasks: hello, and large (4 cpus, 4 GiB). Queue narrow:
 * two at a time. Streams: chat, an input; log, an output. */
extern const char test_manifest[];
int build_end(struct test_worker *worker, const char *manifest);
/* The same with images of the test's own: objects separated by commas. */
int build_end_with(struct test_worker *worker, const char *manifest, const char *images);

/* An object of this text, put into the store: its id, or "". */
const char *worker_put(struct test_worker *worker, const char *text);
/* One that was sealed, as the `put` of an object backend whose arg is the worker. */
bool worker_put_sealed(void *worker, const struct seal_facts *facts, int fd, struct error *err);
const char *object_id(struct service *service, const char *text);
int worker_ask_object(struct test_worker *worker, const char *method, const char *id);

/* Uploads, builds with the worker and promotes; false when a step fails. */
bool service_build(struct service *service, struct test_worker *worker, const char *key);

/* A run of a task with options (a JSON object or NULL): its id, or "". */
const char *service_start_run(struct service *service, const char *key, const char *task,
                              const char *options);

/* A column of the run as the API shows it; also left in the service's answer. */
const char *run_text(struct service *service, const char *key, const char *run, const char *path);

/* How many events of this kind the run has. */
size_t run_events_of(struct service *service, const char *key, const char *run, const char *kind);

/* Whether the last answer has this text in it. */
bool service_says(struct service *service, const char *text);

/* A statement of the test's own, in a transaction of its own; true when it changed `n` rows. */
bool service_change(struct service *service, const struct query *query, const struct value *params,
                    size_t n_params, int64_t n);

/* The same service for another thread: its own connection, answer and arena. */
struct service *service_view(const struct service *service);
void service_view_end(struct service *view);
