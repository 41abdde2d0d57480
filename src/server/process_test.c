/* Commands and terminals in a workspace: what people ask, what the worker is told and tells. */
#include <pthread.h>

#include "base/encode.h"
#include "base/time.h"
#include "server/mount_testing.h"
#include "server/sweep.h"

#define TRUE_COMMAND "{\"command\":[\"true\"]}"
#define NO_SUCH      "0190a000-0000-7000-8000-00000000ffff"

/* A command that has begun. */
static bool run_command(struct service *service, struct yard *yard)
{
    return yard_set(service, yard) && yard_mount(yard) &&
           yard_make(yard, "/execs", "{\"command\":[\"cat\"]}") == 201 && yard_hear(yard) == 1 &&
           yard_report(yard, "started", ",\"pid\":7") == 200;
}

SERVICE_TEST(a_command_goes_from_its_request_to_its_end)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service,
                 yard_make(&yard, "/execs",
                           "{\"command\":[\"sh\",\"-c\",\"echo $A\"],\"cwd\":\"/workspace/src\","
                           "\"env\":{\"A\":\"s3cret\"},\"detached\":true}"),
                 201);
    CHECK_STR(service_text(service, "exec.state"), "queued");
    CHECK_STR(service_text(service, "exec.env_shape.0"), "A");
    CHECK(!service_says(service, "s3cret") && service_says(service, "\"detached\":true"));
    CHECK_STR(service_text(service, "exec.workspace_mount_id"), yard.mount);

    CHECK(yard_hear(&yard) == 1);
    CHECK_STR(service_text(service, "messages.0.type"), "process_start");
    CHECK_STR(service_text(service, "messages.0.lease_id"), yard.worker.lease);
    CHECK_STR(service_text(service, "messages.0.process_kind"), "exec");
    CHECK_STR(service_text(service, "messages.0.command.2"), "echo $A");
    CHECK_STR(service_text(service, "messages.0.cwd"), "/workspace/src");
    CHECK_STR(service_text(service, "messages.0.env.A"), "s3cret");
    CHECK(yard_hear(&yard) == 0);

    CHECK_STATUS(service, yard_report(&yard, "started", ",\"pid\":42"), 200);
    CHECK_STR(yard_exec_text(&yard, "state"), "running");
    CHECK(service_int(service, "process_id") == 42);
    CHECK_STATUS(service, yard_say(&yard, "stdout", 0, "s3cret\n"), 200);
    CHECK(service_int(service, "durable.0.offset") == 7);
    CHECK_STATUS(service, yard_report(&yard, "exited", ",\"exit_code\":3"), 200);
    CHECK_STATUS(service, yard_report(&yard, "exited", ",\"exit_code\":4"), 200);
    CHECK_STR(yard_exec_text(&yard, "state"), "exited");
    CHECK(service_int(service, "exit_code") == 3 && service_int(service, "stdout_cursor") == 7);
    CHECK_STATUS(service, yard_get(&yard, "/execs"), 200);
    CHECK_STR(service_text(service, "execs.0.id"), yard.process);
}

/* The variables are kept only until the process has them, and never in the clear. */
static const struct query count_env = {
    "test_env", 1, 1,
    SAME_ON_BOTH("SELECT count(*) FROM processes WHERE id = $1 AND env_sealed IS "
                 "NOT NULL")};

static int64_t n_sealed(struct yard *yard)
{
    struct service *service = yard->service;
    struct rows rows;
    struct error err;
    AUTO_TX tx = NULL;

    if (!store_begin_read(service->server->store, &tx, &err) ||
        !STORE(tx, &count_env, &service->arena, &rows, &err, V_TEXT(yard->process)))
        return -1;
    return row_int(&rows, 0, 0);
}

SERVICE_TEST(variables_are_kept_until_the_process_has_them)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", "{\"command\":[\"a\"],\"env\":{\"A\":\"b\"}}"),
                 201);
    CHECK(n_sealed(&yard) == 1);
    CHECK_STATUS(service, yard_report(&yard, "started", ""), 200);
    CHECK(n_sealed(&yard) == 0);
}

SERVICE_TEST(a_killed_command_has_a_signal_and_no_code)
{
    struct yard yard;
    CHECK(run_command(service, &yard));
    CHECK_STATUS(service, yard_post(&yard, yard_process(&yard, "execs", "/terminate"), "{}"), 200);
    CHECK(yard_hear(&yard) == 1);
    CHECK_STR(service_text(service, "messages.0.type"), "process_signal");
    CHECK_STR(service_text(service, "messages.0.signal"), "TERM");
    CHECK_STATUS(service,
                 yard_post(&yard, yard_process(&yard, "execs", "/terminate"),
                           "{\"signal\":\"INT\"}"),
                 200);
    CHECK(yard_hear(&yard) == 1);
    CHECK_STR(service_text(service, "messages.0.signal"), "INT");
    CHECK_STATUS(service, yard_report(&yard, "exited", ",\"signal\":\"TERM\""), 200);
    CHECK_STR(yard_exec_text(&yard, "signal"), "TERM");
    CHECK(service_int(service, "exit_code") == -1);
    CHECK_REFUSED(service, yard_post(&yard, yard_process(&yard, "execs", "/terminate"), "{}"), 409,
                  "workspace_exec_terminal");
    CHECK_STATUS(service, yard_events(&yard, "execs", "/stdout"), 200);
    CHECK(service_says(service, "event: workspace_stream_terminal"));
    CHECK(service_says(service, "\"state\":\"exited\",\"signal\":\"TERM\""));
}

SERVICE_TEST(a_command_that_is_ended_before_it_began_does_not_begin)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", TRUE_COMMAND), 201);
    CHECK_STATUS(service, yard_post(&yard, yard_process(&yard, "execs", "/terminate"), "{}"), 200);
    CHECK_STR(service_text(service, "state"), "failed");
    /* The message to begin it is not delivered any more; the one to end it is. */
    CHECK(yard_hear(&yard) == 1);
    CHECK_STR(service_text(service, "messages.0.type"), "process_close");
    CHECK_STATUS(service, yard_report(&yard, "started", ""), 200);
    CHECK_STR(yard_exec_text(&yard, "state"), "failed");
}

SERVICE_TEST(what_is_wrong_with_a_command_is_said)
{
    static const struct {
        const char *body;
        int status;
        const char *code;
    } rows[] = {
        {"{}",                                                   400, "invalid_request"},
        {"{\"command\":[]}",                                     400, "invalid_request"},
        {"{\"command\":[\"\"]}",                                 400, "invalid_request"},
        {"{\"command\":[1]}",                                    400, "invalid_request"},
        {"{\"command\":[\"a\"],\"cwd\":\"src\"}",                400, "invalid_request"},
        {"{\"command\":[\"a\"],\"cwd\":\"/a/../b\"}",            400, "invalid_request"},
        {"{\"command\":[\"a\"],\"cwd\":\"/a/..\"}",              400, "invalid_request"},
        {"{\"command\":[\"a\"],\"env\":{\"LD_PRELOAD\":\"x\"}}", 400, "invalid_request"},
        {"{\"command\":[\"a\"],\"env\":{\"A=B\":\"x\"}}",        400, "invalid_request"},
        {"{\"command\":[\"a\"],\"timeout\":\"never\"}",          400, "invalid_request"},
        {"{\"command\":[\"a\"],\"shell\":true}",                 400, "unknown_field"  },
    };
    struct yard yard;
    CHECK(yard_set(service, &yard));
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_REFUSED(service, yard_make(&yard, "/execs", rows[i].body), rows[i].status,
                      rows[i].code);
    CHECK_REFUSED(service,
                  service_ask(service, yard.key, "POST", "/api/workspaces/" NO_SUCH "/execs",
                              TRUE_COMMAND),
                  404, "workspace_not_found");
    CHECK_REFUSED(service,
                  service_ask(service, yard.key, "GET", "/api/workspaces/" NO_SUCH "/execs", NULL),
                  404, "workspace_not_found");
    snprintf(yard.process, ID_TEXT, NO_SUCH);
    CHECK_REFUSED(service, yard_get(&yard, yard_process(&yard, "execs", "")), 404,
                  "workspace_exec_not_found");
    CHECK_REFUSED(service, yard_get(&yard, yard_process(&yard, "execs", "/stdout")), 404,
                  "workspace_exec_not_found");
    CHECK_REFUSED(service, yard_get(&yard, yard_process(&yard, "pty", "")), 404,
                  "workspace_pty_not_found");
    CHECK_REFUSED(service, yard_post(&yard, yard_process(&yard, "pty", "/close"), "{}"), 404,
                  "workspace_pty_not_found");
}

SERVICE_TEST(a_terminal_is_no_command)
{
    struct yard yard;
    CHECK(yard_set(service, &yard));
    CHECK_STATUS(service, yard_make(&yard, "/pty", "{}"), 201);
    CHECK_REFUSED(service, yard_get(&yard, yard_process(&yard, "execs", "")), 404,
                  "workspace_exec_not_found");
}

SERVICE_TEST(the_same_key_makes_one_command)
{
    struct yard yard;
    char first[ID_TEXT];
    CHECK(yard_set(service, &yard));
    CHECK_STATUS(service,
                 yard_make(&yard, "/execs", "{\"command\":[\"a\"],\"idempotency_key\":\"k\"}"),
                 201);
    snprintf(first, sizeof first, "%s", yard.process);
    CHECK_STATUS(service,
                 yard_make(&yard, "/execs", "{\"command\":[\"a\"],\"idempotency_key\":\"k\"}"),
                 200);
    CHECK_STR(service_text(service, "exec.id"), first);
    CHECK(service_says(service, "\"is_cached\":true"));
    CHECK_REFUSED(service,
                  yard_make(&yard, "/execs", "{\"command\":[\"b\"],\"idempotency_key\":\"k\"}"),
                  409, "idempotency_fingerprint_mismatch");
    CHECK_STATUS(service, yard_make(&yard, "/pty", "{\"idempotency_key\":\"k\"}"), 201);
    CHECK_STATUS(service, yard_make(&yard, "/pty", "{\"idempotency_key\":\"k\",\"cols\":80}"), 200);
    CHECK_REFUSED(service, yard_make(&yard, "/pty", "{\"idempotency_key\":\"k\",\"cols\":81}"), 409,
                  "idempotency_fingerprint_mismatch");
}

/* POST of a piece of input of the newest program. */
static int give(struct yard *yard, const char *kind, int64_t offset, const char *base64)
{
    const char *verb = strcmp(kind, "execs") == 0 ? "/stdin" : "/input";

    return yard_post(yard, yard_process(yard, kind, verb),
                     arena_printf(&yard->service->arena, "{\"offset\":%lld,\"data\":\"%s\"}",
                                  (long long)offset, base64));
}

SERVICE_TEST(input_is_taken_once_per_offset)
{
    struct yard yard;
    CHECK(run_command(service, &yard));
    CHECK_STATUS(service, give(&yard, "execs", 0, "aGVs"), 200);
    CHECK(service_int(service, "offset_end") == 3);
    CHECK_REFUSED(service, give(&yard, "execs", 0, "aGVs"), 409,
                  "workspace_stream_offset_conflict");
    CHECK(service_int(service, "details.cursor") == 3);
    CHECK_STATUS(service, give(&yard, "execs", 3, "bG8="), 200);
    CHECK(yard_hear(&yard) == 2);
    CHECK_STR(service_text(service, "messages.1.type"), "process_input");
    CHECK_STR(service_text(service, "messages.1.data"), "bG8=");
    CHECK(service_int(service, "messages.1.offset") == 3);
    CHECK_REFUSED(service, give(&yard, "execs", 5, "!"), 400, "invalid_request");

    const char *close = yard_process(&yard, "execs", "/stdin/close");
    CHECK_STATUS(service, yard_post(&yard, close, ""), 204);
    CHECK_STATUS(service, yard_post(&yard, close, ""), 204);
    CHECK_REFUSED(service, give(&yard, "execs", 5, "aGVs"), 409, "workspace_exec_stdin_closed");
    CHECK(yard_hear(&yard) == 1);
    CHECK_STR(service_text(service, "messages.0.type"), "process_input_close");
    CHECK_STATUS(service, yard_report(&yard, "exited", ",\"exit_code\":0"), 200);
    CHECK_REFUSED(service, give(&yard, "execs", 5, "aGVs"), 409, "workspace_exec_terminal");
}

SERVICE_TEST(input_that_came_before_the_mount_is_not_lost)
{
    struct yard yard;
    CHECK(yard_set(service, &yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", "{\"command\":[\"cat\"]}"), 201);
    CHECK_STATUS(service, give(&yard, "execs", 0, "aGVs"), 200);
    CHECK_STATUS(service, yard_post(&yard, yard_process(&yard, "execs", "/stdin/close"), ""), 204);
    CHECK(yard_hear(&yard) == 0);
    CHECK(yard_mount(&yard));
    CHECK(yard_hear(&yard) == 3);
    CHECK_STR(service_text(service, "messages.0.type"), "process_start");
    CHECK_STR(service_text(service, "messages.1.data"), "aGVs");
    CHECK_STR(service_text(service, "messages.2.type"), "process_input_close");
}

/* A client that waits for a program to take what it was given. */
struct giver {
    struct yard yard;
    const char *data;
    int64_t offset;
    int status;
};

static void *give_more(void *arg)
{
    struct giver *giver = arg;

    giver->status = give(&giver->yard, "execs", giver->offset, giver->data);
    return NULL;
}

SERVICE_TEST(input_waits_for_a_program_that_does_not_read)
{
    enum { PIECE = 256 * 1024, PIECES = 4 };
    static char text[PIECE / 3 * 4 + 8];
    struct yard yard;
    pthread_t thread;
    static char raw[PIECE / 3 * 3];
    CHECK(run_command(service, &yard));
    base64_encode((struct str){raw, sizeof raw}, text);
    int64_t offset = 0;
    for (int i = 0; offset < (int64_t)MIB(1); i++, offset += sizeof raw)
        CHECK_STATUS(service, give(&yard, "execs", offset, text), 200);

    struct giver giver = {.yard = yard, .data = "aGVs", .offset = offset};
    giver.yard.service = service_view(service);
    giver.yard.worker.service = giver.yard.service;
    pthread_create(&thread, NULL, give_more, &giver);
    CHECK_STATUS(service,
                 yard_report(&yard, "running",
                             arena_printf(&service->arena, ",\"input_offset\":%lld",
                                          (long long)offset)),
                 200);
    pthread_join(thread, NULL);
    service_view_end(giver.yard.service);
    CHECK(giver.status == 200);
    CHECK_STR(yard_exec_text(&yard, "state"), "running");
    CHECK(service_int(service, "stdin_cursor") == offset + 3);
}

SERVICE_TEST(output_is_stored_once_and_in_order)
{
    struct yard yard;
    CHECK(run_command(service, &yard));
    CHECK_STATUS(service, yard_say(&yard, "stdout", 0, "hello "), 200);
    CHECK_STATUS(service, yard_say(&yard, "stdout", 0, "hello "), 200);
    CHECK(service_int(service, "durable.0.offset") == 6);
    CHECK_STATUS(service, yard_say(&yard, "stdout", 3, "lo world"), 200);
    CHECK(service_int(service, "durable.0.offset") == 11);
    CHECK_STATUS(service, yard_say(&yard, "stdout", 12, "x"), 409);
    CHECK_STATUS(service, yard_say(&yard, "output", 0, "x"), 400);
    CHECK_STATUS(service, yard_say(&yard, "stderr", 0, "oh"), 200);

    const char *path = yard_process(&yard, "execs", "/stdout");
    CHECK_STATUS(service, yard_get(&yard, path), 200);
    CHECK(json_count(buf_str(&service->answer.body), "chunks") == 2);
    CHECK_STR(service_text(service, "chunks.1.data"), "d29ybGQ=");
    CHECK_STATUS(service,
                 yard_get(&yard, arena_printf(&service->arena, "%s?cursor=8&limit=1", path)), 200);
    CHECK(service_int(service, "chunks.0.offset_start") == 8);
    CHECK_STR(service_text(service, "chunks.0.data"), "cmxk");
    CHECK_REFUSED(service, yard_get(&yard, arena_printf(&service->arena, "%s?cursor=12", path)),
                  400, "invalid_cursor");
    CHECK_STATUS(service, yard_get(&yard, arena_printf(&service->arena, "%s?limit=1", path)), 200);
    CHECK_STR(service_text(service, "next_cursor"), "6");
}

SERVICE_TEST(a_stream_of_output_ends_with_how_the_command_ended)
{
    struct yard yard;
    CHECK(run_command(service, &yard));
    CHECK_STATUS(service, yard_say(&yard, "stdout", 0, "out"), 200);
    CHECK_STATUS(service, yard_report(&yard, "exited", ",\"exit_code\":5"), 200);
    CHECK_STATUS(service, yard_events(&yard, "execs", "/stdout"), 200);
    CHECK(service_says(service, "id: 3\nevent: workspace_stream_chunk\n"));
    CHECK(service_says(service, "\"data\":\"b3V0\""));
    CHECK(service_says(service, "event: workspace_stream_terminal\ndata: "
                                "{\"state\":\"exited\",\"exit_code\":5,\"cursor\":3}"));
    CHECK_STATUS(service, yard_events(&yard, "execs", "/stdout?cursor=3"), 200);
    CHECK(!service_says(service, "workspace_stream_chunk"));
    CHECK_STATUS(service, yard_events(&yard, "execs", "/stderr"), 200);
    CHECK(service_says(service, "workspace_stream_terminal"));
}

CHANGE(drop_first, "DELETE FROM process_chunks WHERE process_id = $1 AND offset_start = 0");

SERVICE_TEST(output_that_is_not_kept_any_more_is_gone)
{
    struct yard yard;
    CHECK(run_command(service, &yard));
    CHECK_STATUS(service, yard_say(&yard, "stdout", 0, "one"), 200);
    CHECK_STATUS(service, yard_say(&yard, "stdout", 3, "two"), 200);
    CHECK(service_change(service, &drop_first, &V_TEXT(yard.process), 1, 1));
    CHECK_REFUSED(service, yard_get(&yard, yard_process(&yard, "execs", "/stdout")), 410,
                  "workspace_stream_cursor_expired");
    CHECK(service_int(service, "details.earliest_cursor") == 3);
    CHECK_STATUS(service, yard_get(&yard, yard_process(&yard, "execs", "/stdout?cursor=3")), 200);
}

SERVICE_TEST(only_the_last_sixteen_mebibytes_are_kept)
{
    enum { PIECE = 1024 * 1024 };
    struct yard yard;
    CHECK(run_command(service, &yard));
    char *piece = arena_alloc(&service->arena, PIECE + 1);
    memset(piece, 'x', PIECE);
    piece[PIECE] = '\0';
    for (int64_t i = 0; i < 18; i++)
        CHECK_STATUS(service, yard_say(&yard, "stdout", i * PIECE, piece), 200);
    CHECK_REFUSED(service, yard_get(&yard, yard_process(&yard, "execs", "/stdout")), 410,
                  "workspace_stream_cursor_expired");
    CHECK(service_int(service, "details.earliest_cursor") == 2 * (int64_t)PIECE);
}

CHANGE(make_due, "UPDATE processes SET due_ms = 1 WHERE id = $1 AND due_ms IS NOT NULL");

SERVICE_TEST(a_command_that_takes_too_long_is_asked_to_end_and_killed)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", "{\"command\":[\"a\"],\"timeout\":\"1h\"}"),
                 201);
    CHECK(yard_hear(&yard) == 1);
    CHECK(service_int(service, "messages.0.timeout_ms") == 3600000);
    CHECK_STATUS(service, yard_report(&yard, "started", ""), 200);
    sweep_once(service->server);
    CHECK(yard_hear(&yard) == 0);
    static const char *const signals[] = {"TERM", "KILL"};
    for (size_t i = 0; i < 2; i++) {
        CHECK(service_change(service, &make_due, &V_TEXT(yard.process), 1, 1));
        sweep_once(service->server);
        CHECK(yard_hear(&yard) == 1);
        CHECK_STR(service_text(service, "messages.0.signal"), signals[i]);
    }
    CHECK_STATUS(service, yard_report(&yard, "exited", ",\"signal\":\"KILL\""), 200);
    CHECK_STR(yard_exec_text(&yard, "error"), "it ran longer than its timeout of 3600000 ms");
}

CHANGE(age_process, "UPDATE processes SET created_ms = created_ms - 1300000 WHERE id = $1");

SERVICE_TEST(a_command_that_never_begins_fails_in_time)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", TRUE_COMMAND), 201);
    CHECK(service_change(service, &age_process, &V_TEXT(yard.process), 1, 1));
    sweep_once(service->server);
    CHECK_STR(yard_exec_text(&yard, "state"), "failed");
    CHECK_STR(service_text(service, "error"), "it did not begin within 20 minutes");
}

SERVICE_TEST(a_command_that_could_not_start_says_why)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_make(&yard, "/execs", TRUE_COMMAND), 201);
    CHECK_STATUS(service, yard_report(&yard, "failed", ",\"error\":\"no such file\""), 200);
    CHECK_STR(yard_exec_text(&yard, "state"), "failed");
    CHECK_STR(service_text(service, "error"), "no such file");
    CHECK_STATUS(service, yard_events(&yard, "execs", "/stdout"), 200);
    CHECK(service_says(service, "\"state\":\"failed\",\"error\":\"no such file\""));
}

SERVICE_TEST(a_terminal_is_typed_into_resized_and_closed)
{
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    CHECK_STATUS(service, yard_make(&yard, "/pty", "{\"cols\":0,\"rows\":50}"), 201);
    CHECK_STR(service_text(service, "pty.state"), "starting");
    CHECK(service_int(service, "pty.cols") == 80 && service_int(service, "pty.rows") == 50);
    CHECK(yard_hear(&yard) == 1);
    CHECK_STR(service_text(service, "messages.0.process_kind"), "pty");
    CHECK(service_int(service, "messages.0.cols") == 80);
    CHECK_STATUS(service, yard_report(&yard, "started", ""), 200);

    CHECK_STATUS(service, give(&yard, "pty", 0, "bHMK"), 200);
    CHECK_STR(service_text(service, "stream"), "input");
    CHECK_STATUS(service,
                 yard_post(&yard, yard_process(&yard, "pty", "/resize"),
                           "{\"cols\":100,\"rows\":30}"),
                 200);
    CHECK(service_int(service, "cols") == 100);
    CHECK_REFUSED(service,
                  yard_post(&yard, yard_process(&yard, "pty", "/resize"),
                            "{\"cols\":501,\"rows\":30}"),
                  400, "invalid_request");
    CHECK_STATUS(service, yard_post(&yard, yard_process(&yard, "pty", "/close"), "{}"), 200);
    CHECK(yard_hear(&yard) == 3);
    CHECK_STR(service_text(service, "messages.0.type"), "process_input");
    CHECK_STR(service_text(service, "messages.1.type"), "process_resize");
    CHECK_STR(service_text(service, "messages.2.type"), "process_close");
    CHECK_STATUS(service, yard_say(&yard, "output", 0, "$ "), 200);
    CHECK_STATUS(service, yard_say(&yard, "stdout", 0, "$ "), 400);
    CHECK_STATUS(service, yard_report(&yard, "exited", ",\"exit_code\":0"), 200);
    CHECK_STATUS(service, yard_get(&yard, "/pty"), 200);
    CHECK_STR(service_text(service, "ptys.0.state"), "closed");
    CHECK_REFUSED(service, give(&yard, "pty", 3, "bHMK"), 409, "workspace_pty_not_open");
    CHECK_REFUSED(service,
                  yard_post(&yard, yard_process(&yard, "pty", "/resize"),
                            "{\"cols\":10,\"rows\":30}"),
                  409, "workspace_pty_not_open");
    CHECK_STATUS(service, yard_post(&yard, yard_process(&yard, "pty", "/close"), "{}"), 200);
    CHECK_STATUS(service, yard_events(&yard, "pty", "/output"), 200);
    CHECK(service_says(service, "\"state\":\"closed\",\"exit_code\":0"));
}

SERVICE_TEST(a_program_of_another_mount_is_not_the_worker_s)
{
    struct yard yard, other;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    other = yard;
    CHECK_STATUS(service,
                 service_ask(service, yard.key, "POST", "/api/workspaces",
                             "{\"sandbox_id\":\"box\"}"),
                 201);
    snprintf(other.workspace, ID_TEXT, "%s", service_text(service, "workspace.id"));
    CHECK_STATUS(service, yard_make(&other, "/execs", TRUE_COMMAND), 201);
    snprintf(yard.process, ID_TEXT, "%s", other.process);
    CHECK_STATUS(service, yard_report(&yard, "started", ""), 400);
    CHECK_STATUS(service, yard_report(&yard, "sleeping", ""), 400);
}

TEST_MAIN()
