/* One sandbox and its agent, as a lease's thread uses them: start, set up, launch, follow,
 * stop, each a call that returns when it is done, failed, or must be given up.
 *
 * While a call waits it answers for everything else: pings, output, the lease's own
 * messages. It is given up (ERR_CANCELLED) when the lease is stale, fenced or told to stop,
 * and fails (ERR_GONE) when engine or agent ends by itself.
 */
#pragma once

#include <stdatomic.h>

#include "base/loop.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "engine/engine.h"
#include "protocol/channel.h"
#include "worker/lease.h"

/* Why an attempt or a build ended badly: what the server is told. */
struct failure {
    const char *layer, *kind, *stage;
    const char *code; /* for the server to act on; NULL: none */
    bool retryable;   /* the platform's fault: deliver again */
    char text[1024];
};

struct guest;

enum guest_stream { GUEST_STDOUT, GUEST_STDERR, GUEST_STREAMS };

/* What a program's output and messages go to. */
struct guest_listener {
    /* False: no room now; the guest is held back until guest_room. */
    bool (*output)(void *arg, enum guest_stream stream, struct str bytes);
    void (*log)(void *arg, const struct message_log *log); /* or NULL */
    void *arg;
};

/* A value that only one program sees, on no disk. */
struct guest_secret {
    const char *target; /* a variable, or a path: clean, absolute, not below /dev /proc … */
    const struct secret *value;
    enum secret_placement placement;
    uint32_t mode;     /* of a file or directory */
    const char *name;  /* of the file in a directory; else NULL */
    const char *owner; /* NULL: the program's user */
};

struct guest_program {
    enum program_kind kind;
    const char *const *argv, *const *env; /* NULL-terminated; env may be NULL */
    const char *cwd, *user;               /* NULL: the setup's */
    const struct guest_secret *secrets;   /* at most SECRETS_MAX; not used after guest_launch */
    size_t n_secrets;
    const volatile bool *abort; /* or NULL; when true guest_follow gives up: ERR_CANCELLED */
    struct guest_listener listener;
};

/* What a finished program left. Texts live in the guest's arena. */
struct guest_result {
    bool has_outcome;
    enum outcome_kind outcome;
    struct str output; /* JSON of a succeeded outcome */
    struct str error_name, error_message, error_stack, error_details;
    bool has_load_failure; /* the module could not be loaded: kind and message */
    struct str load_kind, load_message, load_file, load_stack;
    int64_t load_line;
    int exit_code, signal;
    bool oom, had_no_process; /* what it took too much of */
    int64_t cpu_ms;
};

struct guest_setup {
    const struct sandbox_spec *spec;
    const struct image_config *config;
    const char *mount; /* workspace path, or NULL */
    bool shows_platform, is_layer;
};

/* `lease` gives cancel, fence and stop, and is NULL for a sandbox that is to stand by; `failure`
 * is filled whenever a call returns false. */
bool guest_start(struct worker *worker, struct lease *lease, const struct sandbox_spec *spec,
                 struct failure *failure, struct guest **guest, struct error *err) MUST_USE;
bool guest_set_up(struct guest *guest, const struct guest_setup *setup, struct error *err) MUST_USE;
bool guest_launch(struct guest *guest, const struct guest_program *program,
                  struct error *err) MUST_USE;

/* What A_START and PRELOAD say of the image: where bare imports are looked for besides the
 * workspace. */
struct str guest_options(const struct image_config *config, struct arena *arena);

/* Of a launched task that waits: it goes through a start once and imports the module, when there is
 * one (else NULL), that its runs will ask for. False: the guest is of no use. */
bool guest_preload(struct guest *guest, const struct guest_setup *setup, const char *module,
                   struct error *err) MUST_USE;
const char *guest_preloaded(const struct guest *guest); /* the module; NULL: none */

/* For a task that is held, also one that stood by. At most SECRETS_MAX; they may be forgotten when
 * it returns. What the agent could not place is told by guest_await_secrets, which must come
 * before the task is let go. */
bool guest_send_secrets(struct guest *guest, const struct guest_secret *secrets, size_t n,
                        struct error *err) MUST_USE;
bool guest_await_secrets(struct guest *guest, struct error *err) MUST_USE;

/* A launched program that nobody had yet gets its lease and listener. */
bool guest_adopt(struct guest *guest, struct lease *lease, const struct guest_listener *listener,
                 struct failure *failure, struct error *err) MUST_USE;

/* A copy that has not run since it was made (template_wake). */
bool guest_is_asleep(const struct guest *guest);

/* Keeps one alive that nobody has: to be called at least every few seconds. False: it is dead. */
bool guest_stand_by(struct guest *guest, struct error *err) MUST_USE;

/* Hands a task or check what it runs on: the head of A_START, and the payload's bytes. */
bool guest_release(struct guest *guest, struct message_a_start *start, struct str payload,
                   struct error *err) MUST_USE;

/* From this boot time on (0: never) the program is ended: cancel, grace, kill. A cancel of the
 * lease does the same with the server's grace. */
void guest_set_limit(struct guest *guest, int64_t limit_ms);

/* Follows the program until nothing of it is left, with that limit. */
bool guest_follow(struct guest *guest, int64_t limit_ms, struct guest_result *result,
                  struct error *err) MUST_USE;

/* What a program asks of the server. */
struct guest_op {
    struct guest_op *next;
    uint64_t op;
    char kind[65];
    struct buf body; /* JSON */
};

enum guest_news {
    GUEST_NO_NEWS,   /* until_ms came first */
    GUEST_ENDED,     /* nothing of the program is left: the result is filled */
    GUEST_ASKS,      /* guest_take_op */
    GUEST_IS_CALLED, /* its lease has an answer for it, or it should make room */
};

/* The same for a program that may ask and wait: returns with the first news. */
bool guest_watch(struct guest *guest, int64_t until_ms, enum guest_news *news,
                 struct guest_result *result, struct error *err) MUST_USE;

struct guest_op *guest_take_op(struct guest *guest); /* the caller's; NULL: none */
void guest_op_free(struct guest_op *op);             /* accepts NULL */
bool guest_answer(struct guest *guest, uint64_t op, enum op_status status, struct str body,
                  struct error *err) MUST_USE;

/* While it is true a stop of the worker is news and no end: there is something to be saved. */
void guest_outlive_stop(struct guest *guest, bool outlives);

/* --- a sandbox of many programs at a time ---
 *
 * It has no program of its own: whoever serves it speaks to the agent himself (guest_state.h) and
 * hears everything that is said of programs, files and relays. */
struct guest_server {
    /* *is_taken: it was for him. False fails the channel. */
    bool (*message)(void *arg, const struct message *message, bool *is_taken, struct error *err);
    bool (*data)(void *arg, uint16_t stream, struct str bytes, bool is_end, bool *is_taken,
                 struct error *err);
    /* Before what is queued is written: what may be sent now. */
    bool (*pump)(void *arg, struct error *err);
    /* guest_room was raised. */
    bool (*room)(void *arg, struct error *err);
    void *arg;
};
void guest_serve(struct guest *guest, const struct guest_server *server);

/* Ends the task of a sandbox that stood by: it is nobody's. */
bool guest_dismiss(struct guest *guest, struct error *err) MUST_USE;

/* Until something has happened there, or to the lease, or that boot time has come. */
bool guest_attend(struct guest *guest, int64_t until_ms, struct error *err) MUST_USE;

/* --- leaving this worker and coming back ---
 *
 * A program that waits is frozen, its agent paused, the sandbox saved to an image in memory and
 * ended. What is frozen can be thawed; once paused only guest_restore brings it back. */

/* The program goes no further and everything it printed has come. ERR_CONFLICT when it is busy
 * with more than its wait: then nothing is changed. */
bool guest_freeze(struct guest *guest, struct error *err) MUST_USE;
bool guest_thaw(struct guest *guest, struct error *err) MUST_USE;

/* Everything in the sandbox stands still for a moment, asked or not, and for `ms` at most: then it
 * goes on by itself. False leaves open whether it does: guest_let_go is called in any case. */
bool guest_hold(struct guest *guest, int64_t ms, struct error *err) MUST_USE;
bool guest_let_go(struct guest *guest, struct error *err) MUST_USE;
bool guest_is_still(const struct guest *guest);

/* The tree of the workspace (protocol/tree.h), while the program stands still or after its end: its
 * bytes go to `take`, in order. When that fails, or the agent cannot read the tree, the guest is
 * as it was before. */
typedef bool guest_take_tree(void *arg, struct str bytes, struct error *err);

struct guest_captured {
    uint64_t files_read, bytes_read;
    char lack[128]; /* why it is not remembered, or no difference though one was asked for */
};

/* What is to be captured: the workspace, or of a machine that was set up as a layer what was
 * changed in its image, after which it is of no more use. `since` is the mark of a tree the agent
 * remembers: then what comes is the difference from it, unless it remembers another; ERR_CONFLICT
 * when it finds that there is none to be told. With `mark` it remembers this one. */
struct guest_wanted {
    bool is_layer;
    const char *since, *mark; /* NULL: none */
};
bool guest_capture(struct guest *guest, const struct guest_wanted *wanted, guest_take_tree *take,
                   void *arg, int64_t until_ms, struct guest_captured *captured,
                   struct error *err) MUST_USE;

/* The other way, before the task's release: the bytes of a tree for the workspace. `give` appends
 * the next ones, at most piece_max, and says when they are the last. */
typedef bool guest_give_tree(void *arg, struct buf *piece, bool *is_last, struct error *err);
bool guest_place(struct guest *guest, const char *mark, guest_give_tree *give, void *arg,
                 size_t piece_max, int64_t until_ms, struct error *err) MUST_USE;

/* The version that the agent remembers by a mark, as far as the host knows. */
struct guest_base {
    char manifest[SHA256_HEX]; /* empty: none */
    char mark[SHA256_HEX];
};
const struct guest_base *guest_base(const struct guest *guest);
void guest_set_base(struct guest *guest, const char *manifest, const char *mark); /* NULL: none */

/* Whether its program goes on after this capture, and from this capture: the next one may be a
 * difference to it. What is only looked at in between changes nothing. */
bool guest_goes_on(const struct guest *guest);

/* False when the sandbox did not outlive its program. */
bool guest_can_capture(const struct guest *guest);

enum { GUEST_NONCE_LEN = 16 };

/* Of a frozen program, or of one that waits at the gate: secrets leave its memory and the agent
 * says nothing more until it hears the nonce. */
bool guest_pause(struct guest *guest, enum pause_purpose purpose, uint8_t nonce[GUEST_NONCE_LEN],
                 struct error *err) MUST_USE;

/* Where such a sandbox is saved to, or what was saved of it brought. */
bool guest_make_image(struct worker *worker, const struct sandbox_spec *spec,
                      struct saved_image *image, struct error *err) MUST_USE;

/* What is saved can be read while it is_running. The sandbox is over at the end. */
struct guest_save {
    struct guest *guest;
    struct saved_image *image;
    pthread_t thread;
    atomic_bool is_running;
    bool is_fine;
    struct error err;
};
bool guest_save_begin(struct guest *guest, struct saved_image *image, struct guest_save *save,
                      struct error *err) MUST_USE;
bool guest_save_end(struct guest_save *save, struct error *err) MUST_USE;

/* As guest_start, set up and launched: the program is where it was when it was paused. What was
 * saved may still be on its way into the image (saved_form.grows); the agent is heard after
 * guest_meet. */
bool guest_restore(struct worker *worker, struct lease *lease, const struct sandbox_spec *spec,
                   const struct saved_image *image, const struct guest_listener *listener,
                   struct failure *failure, struct guest **guest, struct error *err) MUST_USE;
bool guest_meet(struct guest *guest, const uint8_t nonce[GUEST_NONCE_LEN],
                struct error *err) MUST_USE;

/* Before the program may go on anywhere: time, entropy, identity and network are as of now. */
bool guest_reestablish(struct guest *guest, bool has_network, struct error *err) MUST_USE;

/* The same in two parts, with time between them for something else. */
bool guest_reestablish_begin(struct guest *guest, bool has_network, struct error *err) MUST_USE;
bool guest_reestablish_end(struct guest *guest, struct error *err) MUST_USE;

/* The same for one that was never paused: done when its adapter is at the gate. */
bool guest_reestablish_again(struct guest *guest, struct error *err) MUST_USE;

/* What a program that waits is given, once and for all: it has consumed it when this returns. */
struct guest_resumption {
    uint64_t op;
    int64_t version; /* a program ignores one it has seen */
    struct str answer, identity;
};
bool guest_resume(struct guest *guest, const struct guest_resumption *resumption,
                  struct error *err) MUST_USE;

/* The template of which it is a copy, good as long as the guest; NULL: none. */
struct template;
struct template *guest_origin(const struct guest *guest);

/* True when the program was ended because of its limit, or because of a cancel. */
bool guest_was_timed_out(const struct guest *guest);
bool guest_was_cancelled(const struct guest *guest);

/* The listener has room again (raised through this eventfd). */
int guest_room(const struct guest *guest);

/* Asks the agent to end, then destroys the instance and proves it gone. Accepts NULL. */
void guest_stop(struct guest *guest);

bool failure_set(struct failure *failure, const char *layer, const char *kind, const char *stage,
                 bool retryable, const char *fmt, ...) PRINTF_LIKE(6, 7);
