/* Tasks that stand still and go on, in the same life of the agent and in the next one. */
#include <poll.h>

#include "base/hash.h"
#include "guest/scenario.h"
#include "protocol/tree.h"

static const uint8_t nonce[CHANNEL_NONCE_LEN] = "fifteen letters";
static const char entropy[64] = "of the host";

static bool release(struct harness *harness, const char *mode)
{
    AUTO(buf_finish) struct buf start = {.max = 65536};
    struct message_a_start fields = {.mode = STR("run"), .options = str_of(mode)};
    struct error err;

    if (!message_encode(MESSAGE_A_START, &fields, &start, &err))
        return false;
    struct message_release message = {.id = 5, .program = 1, .start = buf_str(&start)};
    return harness_send(harness, MESSAGE_RELEASE, &message);
}

static bool launch(struct harness *harness)
{
    return set_up(harness) &&
           harness_launch(harness, 1, PROGRAM_TASK, ARGV("node", "main.js"), NULL, "") &&
           harness_until(harness, &harness->has_started);
}

/* A task that has opened its wait. */
static bool start_waiting(struct harness *harness, const char *mode)
{
    return launch(harness) && release(harness, mode) && harness_until(harness, &harness->has_op);
}

static bool ask_freeze(struct harness *harness, uint64_t deadline_ms)
{
    harness->has_frozen = false;
    return harness_send(harness, MESSAGE_FREEZE, &(struct message_freeze){20, 1, deadline_ms, 0});
}

static bool freeze(struct harness *harness)
{
    return ask_freeze(harness, 5000) && harness_until(harness, &harness->has_frozen);
}

static bool thaw(struct harness *harness)
{
    harness->has_thawed = false;
    return harness_send(harness, MESSAGE_THAW, &(struct message_thaw){21, 1}) &&
           harness_until(harness, &harness->has_thawed);
}

static bool pause_agent(struct harness *harness)
{
    struct message_pause message = {
        .id = 22, .purpose = PAUSE_CHECKPOINT, .nonce = {(const char *)nonce, sizeof nonce}
    };

    return harness_send(harness, MESSAGE_PAUSE, &message) &&
           harness_until(harness, &harness->has_paused);
}

static bool is_refused(struct harness *harness, const char *code)
{
    (void)!harness_until(harness, &harness->has_error);
    bool is_right = strcmp(harness->failure, code) == 0;
    if (!is_right)
        printf("# refused with %s: %s\n", harness->failure, harness->text);
    harness->has_error = false;
    return is_right;
}

/* Gives the answer over fd 3, and leaves the output as text. */
static bool answer(struct harness *harness)
{
    struct message_op_result result = {1, 1, OP_OK, STR("{\"condition\":\"completed\"}")};
    struct error err;

    return harness_send(harness, MESSAGE_OP_RESULT, &result) &&
           harness_until(harness, &harness->has_quiesced) &&
           buf_append(&harness->out, (struct str){"", 1}, &err);
}

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

struct listing {
    struct buf text;
    uint64_t n_bytes;
};

static bool list_entry(void *arg, const struct tree_entry *entry, struct error *err)
{
    struct listing *listing = arg;
    struct str rest = entry->xattrs, name = {0}, value = {0};
    char line[512];

    (void)!tree_xattr_next(&rest, &name, &value);

    snprintf(line, sizeof line, "%d %.*s %o %u %llu>%.*s %llu%s%s%.*s\n", (int)entry->kind,
             (int)entry->path.len, entry->path.ptr, entry->mode, entry->uid,
             (unsigned long long)entry->size, (int)entry->target.len, entry->target.ptr,
             (unsigned long long)entry->link_group, entry->is_linked ? " linked" : "",
             entry->is_opaque ? " opaque" : "", (int)name.len, name.ptr ? name.ptr : "");
    return buf_append(&listing->text, str_of(line), err);
}

static bool list_bytes(void *arg, struct str bytes, bool is_last UNUSED, struct error *err UNUSED)
{
    struct listing *listing = arg;

    listing->n_bytes += bytes.len;
    return true;
}

static bool capture(struct harness *harness)
{
    struct error err;

    harness->has_captured = false;
    harness->tree.len = 0;
    return channel_open_stream(&harness->channel, 21, CHANNEL_RECEIVES, &err) &&
           harness_send(harness, MESSAGE_CAPTURE, &(struct message_capture){60, 21, 7});
}

static const char everything[] = "1 large 644 1000 1000000> 0\n"
                                 "2 made 750 1000 0> 0\n"
                                 "1 made/one 644 1000 6> 1\n"
                                 "1 made/two 644 1000 0> 1 linked\n"
                                 "1 made.txt 644 1000 0> 0user.note\n"
                                 "2 old 700 1000 0> 0 opaque\n"
                                 "3 pointer 777 1000 0>../made 0\n"
                                 "4 queue 600 1000 0> 0\n";

static void check_tree(struct harness *harness)
{
    AUTO(tree_decoder_finish) struct tree_decoder decoder;
    struct listing listing = {.text = {.max = 65536}};
    struct error err = {0};
    uint8_t digest[BLAKE2B_LEN];
    struct blake2b state;

    tree_decoder_init(&decoder, list_entry, list_bytes, &listing);
    CHECK(tree_decode(&decoder, buf_str(&harness->tree), &err) && tree_decode_end(&decoder, &err));
    CHECK(buf_append(&listing.text, (struct str){"", 1}, &err));

    /* What the image had is gone: a whiteout, and it comes first. */
    static const char gone[] = "5 from-image 0 0 0> 0\n";
    CHECK(strncmp(listing.text.bytes, gone, strlen(gone)) == 0);
    CHECK_STR(listing.text.bytes + strlen(gone), everything);
    CHECK(listing.n_bytes == 1000006 && harness->captured.bytes == listing.n_bytes);
    CHECK(harness->captured.entries == 9 && harness->captured.skipped == 1);
    buf_finish(&listing.text);

    blake2b_init(&state, (struct str){0});
    blake2b_update(&state, buf_str(&harness->tree));
    blake2b_final(&state, digest);
    CHECK(memcmp(digest, harness->capture_digest, sizeof digest) == 0);
}

static void capture_all(struct harness *harness)
{
    CHECK(start_waiting(harness, "park write"));
    CHECK(capture(harness) && is_refused(harness, "invalid_request"));
    CHECK(freeze(harness));

    /* The refused one has left the stream open on this side only. */
    struct error err;
    harness->has_captured = false;
    CHECK(harness_send(harness, MESSAGE_CAPTURE, &(struct message_capture){60, 21, 7}));
    CHECK(harness_until(harness, &harness->has_captured));
    check_tree(harness);
    CHECK(capture(harness));
    CHECK(channel_reset(&harness->channel, 21, 0, &err) && is_refused(harness, "capture_failed"));
    CHECK(thaw(harness));
    CHECK(harness_send(harness, MESSAGE_PING, &(struct message_ping){5, 60000}));
    CHECK(answer(harness));
    CHECK(harness->last_pong == 5);

    /* And once more when nothing of it is left. */
    CHECK(capture(harness) && harness_until(harness, &harness->has_captured));
    check_tree(harness);
}

TEST(a_capture_holds_what_a_task_changed_on_linux)
{
    run_scenario(capture_all, ON_LINUX, SETUP_LAYOUT_AGENT);
}

TEST(a_capture_holds_what_a_task_changed_on_gvisor)
{
    run_scenario(capture_all, ON_GVISOR, SETUP_LAYOUT_AGENT);
}

TEST(a_capture_holds_what_a_task_changed_in_a_machine)
{
    run_scenario(capture_all, ON_MACHINE, SETUP_LAYOUT_AGENT);
}

static void leave_out_secrets(struct harness *harness)
{
    struct message_secret secret = {.id = 30,
                                    .program = 1,
                                    .placement = SECRET_IN_FILE,
                                    .target = STR("/workspace/conf/deep/key"),
                                    .mode = 0400,
                                    .value = STR("k3y-in-a-file")};

    CHECK(launch(harness));
    CHECK(harness_send(harness, MESSAGE_SECRET, &secret));
    CHECK(harness_send(harness, MESSAGE_SECRETS_END, &(struct message_secrets_end){31, 1, 1}));
    CHECK(harness_until(harness, &harness->has_secrets));
    CHECK(release(harness, "park write") && harness_until(harness, &harness->has_op));
    CHECK(freeze(harness) && capture(harness) && harness_until(harness, &harness->has_captured));
    check_tree(harness);
}

TEST(secrets_are_in_no_capture_on_linux)
{
    run_scenario(leave_out_secrets, ON_LINUX, SETUP_LAYOUT_AGENT);
}

TEST(secrets_are_in_no_capture_on_gvisor)
{
    run_scenario(leave_out_secrets, ON_GVISOR, SETUP_LAYOUT_AGENT);
}

TEST_MAIN()
