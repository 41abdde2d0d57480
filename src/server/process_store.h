/* Programs in a mounted workspace: commands (exec) and terminals (pty).
 *
 * Both are rows of one table with the same life under different names. What is to be done with
 * them goes to the worker of their mount as messages; what cannot be sent yet follows from the row
 * when a worker takes the mount. Input and output are addressed by byte offset.
 */
#pragma once

#include "model/exec_state.h"
#include "model/pty_state.h"
#include "protocol/worker_api.h"
#include "server/context.h"

enum process_kind { PROCESS_EXEC, PROCESS_PTY };

enum {
    PROCESS_INPUT_MAX = 256 * 1024,    /* of one piece */
    PROCESS_WINDOW = 1024 * 1024,      /* of input that the program has not been given yet */
    PROCESS_KEPT = 16 * 1024 * 1024,   /* of each stream of output */
    PROCESS_KILL_MS = 10 * 1000,       /* between asking a program to end and killing it */
    PROCESS_START_MS = 20 * 60 * 1000, /* after which one that did not begin has failed */
};

struct process_row {
    char id[ID_TEXT], environment_id[ID_TEXT], workspace_id[ID_TEXT], mount_id[ID_TEXT];
    enum process_kind kind;
    struct str state;
    bool is_live, has_begun, is_input_closed;
    int64_t timeout_ms, out_end, err_end, input_end, input_taken; /* timeout 0: none */
    int64_t due_ms;                                               /* 0: none */
    struct str due_signal;
};

const char *process_kind_name(enum process_kind kind);

/* Locks the row. ERR_EXEC_NOT_FOUND or ERR_PTY_NOT_FOUND. */
bool process_load(struct tx *tx, const char *id, struct arena *arena, struct process_row *process,
                  struct error *err) MUST_USE;

/* What a report or an end brings. */
struct process_change {
    enum exec_event on; /* a terminal's events are the same */
    int64_t pid;        /* 0: not known */
    bool has_exit_code;
    int64_t exit_code;
    struct str signal, error; /* ptr NULL: none */
};

/* Moves the row by its machine's table; *moved is false when the move is not legal. */
bool process_apply(struct tx *tx, struct process_row *process, const struct process_change *change,
                   bool *moved, struct wakes *wakes, struct error *err) MUST_USE;

/* A message about it to the worker that has its mount; nothing when none has. */
bool process_send(struct tx *tx, const struct process_row *process, const char *type,
                  const struct wire_message *message, struct wakes *wakes,
                  struct error *err) MUST_USE;

/* Sends again, to a worker that takes the mount, whatever it needs to begin the program. */
bool process_send_all(struct tx *tx, const struct process_row *process, struct wakes *wakes,
                      struct error *err) MUST_USE;

/* Completes a message that begins a program from its row; *is_wanted is false when it has begun or
 * ended already. */
bool process_fill_start(struct server *server, struct tx *tx, struct wire_message *message,
                        struct arena *arena, bool *is_wanted, struct error *err) MUST_USE;

/* Appends to the input of a locked, live program. *has_room is false, and nothing happened, when
 * it has not taken enough of what it was given: wait for its topic, process:<id>.
 * ERR_STREAM_OFFSET when `offset` is not where its input ends; ERR_EXEC_TERMINAL,
 * ERR_EXEC_STDIN_CLOSED or ERR_PTY_NOT_OPEN. */
bool process_input(struct tx *tx, struct process_row *process, int64_t offset, struct str bytes,
                   const char chunk_id[ID_TEXT], bool *has_room, struct wakes *wakes,
                   struct error *err) MUST_USE;

/* A signal by its name; one that has not begun ends without having begun. */
bool process_send_signal(struct tx *tx, struct process_row *process, const char *signal,
                         struct wakes *wakes, struct error *err) MUST_USE;

/* Of a live terminal. */
bool process_resize(struct tx *tx, const struct process_row *process, int64_t cols, int64_t rows,
                    struct wakes *wakes, struct error *err) MUST_USE;
bool process_hang_up(struct tx *tx, struct process_row *process, struct wakes *wakes,
                     struct error *err) MUST_USE;
