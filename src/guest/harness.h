/* For tests: a real agent in a real sandbox, and the host's end of its channel.
 *
 * The image holds one static program of ours, so the tests need nothing from the machine but
 * root. Every wait has a deadline and fails the test instead of hanging it.
 */
#pragma once

#include "base/process.h"
#include "protocol/channel.h"

enum harness_engine { ON_LINUX, ON_GVISOR, ON_RUNC, ON_MACHINE };

struct harness {
    enum harness_engine engine;
    enum setup_layout layout;
    char folder[256]; /* platform/, image/, bundle/, oci/ */
    struct process process;
    struct channel channel;
    int fd;
    bool keeps_credit;    /* of program 1's stdout */
    size_t kept;          /* bytes of it not yet credited */
    struct buf out, err;  /* of program 1 */
    struct buf other_out; /* of program 2 */
    struct buf output;    /* of the outcome */
    struct buf log;       /* messages of LOG */
    uint16_t output_stream;
    bool has_hello, has_setup, has_secrets, has_error, has_done, is_closed;
    bool has_started, has_failed, has_loaded, has_outcome, has_exited, has_quiesced;
    bool has_other_quiesced, has_room_ended, has_op;
    uint32_t n_preloaded; /* answers */
    bool has_preloaded, is_preloaded;
    bool has_frozen, has_thawed, has_paused, has_reestablished, has_consumed, has_captured;
    bool has_placed, has_relay, has_files, files_more, is_held, has_gone_on;
    struct buf files; /* of the last FILES_RESULT */
    uint64_t files_size;
    struct message_frozen frozen;
    struct message_reestablished reestablished;
    struct message_consumed consumed;
    struct message_capture_end captured; /* without its digest */
    struct message_placed placed;
    struct message_held held;
    uint8_t capture_digest[32];
    struct buf tree;     /* of a capture on stream 21 */
    uint64_t generation; /* of the last HELLO */
    uint64_t last_pong;
    char failure[64], stage[64], text[1100], error_name[256], node_version[64];
    uint32_t uid, gid, exit_code, signal, oom, outcome_kind;
    uint64_t stdout_end, stderr_end;
    char home[256];
};

/* NULL when this engine and layout can be tried here, else why not. */
const char *harness_obstacle(enum harness_engine engine);

/* Prepares folder and image; change files there before harness_start. */
bool harness_prepare(struct harness *harness, enum harness_engine engine, enum setup_layout layout,
                     struct error *err) MUST_USE;
bool harness_write(struct harness *harness, const char *path, const char *text,
                   struct error *err) MUST_USE;

/* Starts the agent, waits for HELLO and says WELCOME. */
bool harness_start(struct harness *harness, struct error *err) MUST_USE;
void harness_finish(struct harness *harness);

/* Fills a SETUP with what every test wants: workspace at /workspace, platform files. */
struct message_setup harness_setup(const struct harness *harness);
bool harness_send(struct harness *harness, enum message_type type, const void *message);

/* Launches a program with output on streams 3 and 5 (program 1) or 13 and 15 (program 2). */
bool harness_launch(struct harness *harness, uint32_t program, enum program_kind kind,
                    const char *const *argv, const char *const *env, const char *user);

/* Meets the agent again after PAUSED, opens the streams of program 1 and says WELCOME. */
bool harness_resync(struct harness *harness, const uint8_t nonce[CHANNEL_NONCE_LEN]);

/* gVisor only: writes the sandbox to the folder, which ends it; starts it from there. */
bool harness_save(struct harness *harness, struct error *err) MUST_USE;
bool harness_restore(struct harness *harness, struct error *err) MUST_USE;

/* In harness.c and harness_oci.c, for each other: the channel to an agent that is about to start,
 * and its start. */
bool harness_connect(struct harness *harness, int *theirs, struct error *err) MUST_USE;
bool harness_start_oci(struct harness *harness, int fd, struct error *err) MUST_USE;
bool harness_start_machine(struct harness *harness, int fd, struct error *err) MUST_USE;
const char *harness_machine_obstacle(void);

/* One exchange of at most 100 ms; false when the agent has gone. */
bool harness_step(struct harness *harness);

/* Talks until *condition; false when the agent goes away, says ERROR or 30 s pass, and in a
 * machine, whose every instruction is emulated, five minutes. */
bool harness_until(struct harness *harness, const bool *condition);

/* Talks until program 1's stdout contains the text. */
bool harness_until_text(struct harness *harness, const char *text);
bool harness_credit(struct harness *harness);
