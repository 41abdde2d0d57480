/* Tasks that stand still and go on, in the same life of the agent and in the next one. */
#include <poll.h>

#include "base/hash.h"
#include "guest/park_scenario.h"

ON_EVERY_ENGINE(a_frozen_task_is_still_and_goes_on_by_a_thaw)
{
    CHECK(start_waiting(harness, "park"));
    CHECK(harness_until_text(harness, "tick\n"));
    for (int round = 0; round < 2; round++) {
        CHECK(freeze(harness));
        CHECK(harness->frozen.processes == 3);

        /* Everything it wrote is here by now, and nothing more comes. */
        size_t len = harness->out.len;
        CHECK(harness->frozen.stdout_end == len && harness->frozen.stderr_end == 0);
        CHECK(harness_step(harness) && harness_step(harness));
        CHECK(harness->out.len == len);

        CHECK(thaw(harness));
        while (harness->out.len == len)
            CHECK(harness_step(harness));
    }
    CHECK(answer(harness));
    CHECK(has(harness, "result {\"condition\":\"completed\"} stopped=T"));
    CHECK(harness->has_outcome && harness->outcome_kind == OUTCOME_SUCCEEDED);
}

TEST(a_frozen_task_is_still_and_goes_on_by_a_thaw_in_a_machine)
{
    run_scenario(a_frozen_task_is_still_and_goes_on_by_a_thaw, ON_MACHINE, SETUP_LAYOUT_AGENT);
}

ON_EVERY_ENGINE(a_task_that_does_not_come_to_rest_stays_running)
{
    CHECK(start_waiting(harness, "park deaf"));
    CHECK(ask_freeze(harness, 50) && is_refused(harness, "adapter_busy"));
    size_t len = harness->out.len;
    while (harness->out.len == len)
        CHECK(harness_step(harness));
    CHECK(answer(harness));
    CHECK(has(harness, "result "));
}

ON_EVERY_ENGINE(a_busy_task_says_so)
{
    CHECK(start_waiting(harness, "park busy"));
    CHECK(ask_freeze(harness, 5000) && is_refused(harness, "adapter_busy"));
    CHECK_STR(harness->text, "two operations");
    CHECK(answer(harness));
}

ON_EVERY_ENGINE(a_task_with_a_server_is_not_frozen_where_that_cannot_be_saved)
{
    struct message_freeze message = {20, 1, .deadline_ms = 5000, .without_tcp = 1};

    CHECK(start_waiting(harness, "park tcp"));
    CHECK(harness_send(harness, MESSAGE_FREEZE, &message) && is_refused(harness, "adapter_busy"));
    CHECK(strstr(harness->text, "has TCP sockets open"));
    CHECK(freeze(harness) && thaw(harness));
    CHECK(answer(harness));
}

ON_EVERY_ENGINE(a_task_that_talks_at_the_barrier_is_not_believed_again)
{
    CHECK(start_waiting(harness, "park rude"));
    CHECK(ask_freeze(harness, 5000));
    /* The freeze is refused as well, sooner or later. */
    if (!harness_until(harness, &harness->has_quiesced))
        harness->has_error = false;
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->has_outcome && harness->outcome_kind == OUTCOME_FAILED);
    CHECK_STR(harness->error_name, "ProtocolError");
}

ON_EVERY_ENGINE(a_running_task_is_not_paused_and_a_waiting_one_not_thawed_twice)
{
    CHECK(start_waiting(harness, "park"));
    struct message_pause message = {
        .id = 9, .nonce = {(const char *)nonce, sizeof nonce}
    };
    CHECK(harness_send(harness, MESSAGE_PAUSE, &message) && is_refused(harness, "invalid_request"));
    CHECK(freeze(harness));
    CHECK(ask_freeze(harness, 5000) && is_refused(harness, "invalid_request"));
    CHECK(thaw(harness) && thaw(harness));
    CHECK(answer(harness));
}

ON_EVERY_ENGINE(a_paused_agent_meets_its_host_again_at_the_nonce)
{
    CHECK(start_waiting(harness, "park"));
    CHECK(freeze(harness) && pause_agent(harness));

    /* Stale bytes, a wrong nonce, and more of it than one read takes. */
    static const char stale[100000] = "fifteen lettars";
    size_t sent = 0;
    while (sent < sizeof stale) {
        struct pollfd ready = {.fd = harness->fd, .events = POLLOUT};
        CHECK(poll(&ready, 1, 30000) == 1);
        ssize_t put = write(harness->fd, stale + sent, sizeof stale - sent);
        CHECK(put > 0);
        sent += (size_t)put;
    }
    CHECK(harness_resync(harness, nonce));
    CHECK(harness->generation == 7);
    harness->out.len = 0;
    CHECK(thaw(harness));
    CHECK(harness_send(harness, MESSAGE_PING, &(struct message_ping){41, 60000}));
    CHECK(answer(harness));
    CHECK(harness->last_pong == 41);
    CHECK(has(harness, "result "));
    CHECK(harness->stdout_end == harness->out.len - 1);
}

static bool give_secrets(struct harness *harness)
{
    struct message_secret file = {.id = 30,
                                  .program = 1,
                                  .placement = SECRET_IN_FILE,
                                  .target = STR("/run/key"),
                                  .mode = 0400,
                                  .value = STR("k3y-in-a-file")};
    struct message_secret variable = {.id = 30,
                                      .program = 1,
                                      .placement = SECRET_IN_ENVIRONMENT,
                                      .target = STR("API_KEY"),
                                      .value = STR("k3y-in-env")};

    harness->has_secrets = false;
    return harness_send(harness, MESSAGE_SECRET, &file) &&
           harness_send(harness, MESSAGE_SECRET, &variable) &&
           harness_send(harness, MESSAGE_SECRETS_END, &(struct message_secrets_end){31, 1, 2}) &&
           harness_until(harness, &harness->has_secrets);
}

static bool reestablish(struct harness *harness, uint64_t generation)
{
    static const struct str dns[] = {STR("198.18.0.1")};
    struct message_reestablish message = {
        .id = 40,
        .realtime_ns = 1,
        .entropy = {entropy, sizeof entropy},
        .machine_id = STR("fedcba9876543210fedcba9876543210"),
        .boot_id = STR("fedcba98-7654-3210-fedc-ba9876543210"),
        .generation = generation,
        .dns = {dns,     1             },
    };

    harness->has_reestablished = false;
    /* The clock of the host is not to be set to 1970 where that could be done. */
    message.realtime_ns = (uint64_t)time(NULL) * 1000000000;
    return harness_send(harness, MESSAGE_REESTABLISH, &message);
}

static bool send_resume(struct harness *harness, uint64_t version)
{
    struct message_resume message = {
        .id = 50,
        .program = 1,
        .resume_version = version,
        .op = 1,
        .body = STR("{\"condition\":\"expired\"}"),
        .identity = STR("{\"run_id\":\"r2\"}"),
        .entropy = {entropy, sizeof entropy},
    };

    harness->has_consumed = false;
    return harness_send(harness, MESSAGE_RESUME, &message);
}

/* From the nonce to the answer: the same whether the agent was saved in between or not. */
static void go_on(struct harness *harness)
{
    harness->out.len = 0;
    CHECK(harness_resync(harness, nonce));
    CHECK(reestablish(harness, 8) && is_refused(harness, "secret_unavailable"));
    CHECK(give_secrets(harness));
    CHECK(reestablish(harness, 7) && is_refused(harness, "lease_stale"));
    CHECK(reestablish(harness, 8) && harness_until(harness, &harness->has_reestablished));
    CHECK(harness->reestablished.generation == 8 && harness->reestablished.entropy_ok == 1);
    CHECK(harness->reestablished.secrets == 2);
    CHECK(harness->out.len == 0);

    /* Said twice while it is on its way, and once more when it was taken: the task may have ended
     * by then, so that nobody says it was. */
    CHECK(send_resume(harness, 1) && send_resume(harness, 1) &&
          harness_until(harness, &harness->has_consumed));
    CHECK(harness->consumed.resume_version == 1);
    CHECK(send_resume(harness, 1) && harness_until(harness, &harness->has_quiesced));
    struct error err;
    CHECK(buf_append(&harness->out, (struct str){"", 1}, &err));
    CHECK(has(harness, "resumed {\"condition\":\"expired\"} stopped=T key=k3y-in-env\n"));
    CHECK(has(harness, "/run/helmr/generation=8\n"));
    CHECK(has(harness, "/run/key=k3y-in-a-file\n"));
    CHECK(has(harness, "identity {\"run_id\":\"r2\"}\n"));
    char *once = strstr(harness->out.bytes, "resumed ");
    CHECK(once && !strstr(once + 1, "resumed "));
}

static bool park_with_secrets(struct harness *harness)
{
    return launch(harness) && give_secrets(harness) && release(harness, "park") &&
           harness_until(harness, &harness->has_op) && harness_until_text(harness, "tick\n") &&
           freeze(harness) && pause_agent(harness);
}

ON_EVERY_ENGINE(a_parked_task_gets_its_answer_new_secrets_and_a_new_generation)
{
    CHECK(park_with_secrets(harness));
    go_on(harness);
    CHECK(harness->layout != SETUP_LAYOUT_AGENT || harness->engine != ON_LINUX ||
          has(harness, "boot_id=fedcba98-7654-3210-fedc-ba9876543210\n"));
}

TEST(a_parked_task_gets_its_answer_new_secrets_and_a_new_generation_in_a_machine)
{
    run_scenario(a_parked_task_gets_its_answer_new_secrets_and_a_new_generation, ON_MACHINE,
                 SETUP_LAYOUT_AGENT);
}

static void save_and_restore(struct harness *harness)
{
    struct error err = {0};

    CHECK(park_with_secrets(harness));
    if (!harness_save(harness, &err) || !harness_restore(harness, &err))
        printf("# %s\n", err.text);
    CHECK(!err.text[0]);
    go_on(harness);
}

TEST(a_task_saved_and_restored_by_gvisor_goes_on_direct)
{
    run_scenario(save_and_restore, ON_GVISOR, SETUP_LAYOUT_DIRECT);
}

TEST(a_task_saved_and_restored_by_gvisor_goes_on_layered)
{
    run_scenario(save_and_restore, ON_GVISOR, SETUP_LAYOUT_AGENT);
}

ON_EVERY_ENGINE(a_task_without_new_random_numbers_is_not_released)
{
    CHECK(start_waiting(harness, "park old"));
    CHECK(freeze(harness));
    size_t len = harness->out.len;
    CHECK(send_resume(harness, 1) && is_refused(harness, "reseed_failed"));
    CHECK(!harness->has_consumed &&
          !memmem(harness->out.bytes + len, harness->out.len - len, "resumed", 7));
    CHECK(thaw(harness) && answer(harness));
}

ON_EVERY_ENGINE(a_task_at_the_gate_is_paused_and_gets_new_random_numbers)
{
    CHECK(launch(harness));
    CHECK(pause_agent(harness) && harness_resync(harness, nonce));
    CHECK(reestablish(harness, 9) && harness_until(harness, &harness->has_reestablished));
    CHECK(release(harness, "fail"));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->has_outcome && harness->outcome_kind == OUTCOME_FAILED);
}

TEST_MAIN()
