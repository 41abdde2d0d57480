/* For tests: tasks that wait and are frozen, and what is asked of their agent then. */
#pragma once

#include "guest/scenario.h"

static const uint8_t nonce[CHANNEL_NONCE_LEN] = "fifteen letters";
static const char entropy[64] = "of the host";

static inline bool release(struct harness *harness, const char *mode)
{
    AUTO(buf_finish) struct buf start = {.max = 65536};
    struct message_a_start fields = {.mode = STR("run"), .options = str_of(mode)};
    struct error err;

    if (!message_encode(MESSAGE_A_START, &fields, &start, &err))
        return false;
    struct message_release message = {.id = 5, .program = 1, .start = buf_str(&start)};
    return harness_send(harness, MESSAGE_RELEASE, &message);
}

static inline bool launch(struct harness *harness)
{
    return set_up(harness) &&
           harness_launch(harness, 1, PROGRAM_TASK, ARGV("node", "main.js"), NULL, "") &&
           harness_until(harness, &harness->has_started);
}

/* A task that has opened its wait. */
static inline bool start_waiting(struct harness *harness, const char *mode)
{
    return launch(harness) && release(harness, mode) && harness_until(harness, &harness->has_op);
}

static inline bool ask_freeze(struct harness *harness, uint64_t deadline_ms)
{
    harness->has_frozen = false;
    return harness_send(harness, MESSAGE_FREEZE, &(struct message_freeze){20, 1, deadline_ms, 0});
}

static inline bool freeze(struct harness *harness)
{
    return ask_freeze(harness, 5000) && harness_until(harness, &harness->has_frozen);
}

static inline bool thaw(struct harness *harness)
{
    harness->has_thawed = false;
    return harness_send(harness, MESSAGE_THAW, &(struct message_thaw){21, 1}) &&
           harness_until(harness, &harness->has_thawed);
}

static inline bool pause_agent(struct harness *harness)
{
    struct message_pause message = {
        .id = 22, .purpose = PAUSE_CHECKPOINT, .nonce = {(const char *)nonce, sizeof nonce}
    };

    return harness_send(harness, MESSAGE_PAUSE, &message) &&
           harness_until(harness, &harness->has_paused);
}

static inline bool is_refused(struct harness *harness, const char *code)
{
    (void)!harness_until(harness, &harness->has_error);
    bool is_right = strcmp(harness->failure, code) == 0;
    if (!is_right)
        printf("# refused with %s: %s\n", harness->failure, harness->text);
    harness->has_error = false;
    return is_right;
}

/* Gives the answer over fd 3, and leaves the output as text. */
static inline bool answer(struct harness *harness)
{
    struct message_op_result result = {1, 1, OP_OK, STR("{\"condition\":\"completed\"}")};
    struct error err;

    return harness_send(harness, MESSAGE_OP_RESULT, &result) &&
           harness_until(harness, &harness->has_quiesced) &&
           buf_append(&harness->out, (struct str){"", 1}, &err);
}
