/* Secrets as files and directories for one program.
 *
 * A value is on a tmpfs of the agent (0700, bounded) from its SECRET to the end of the program,
 * and in no other memory of ours. Only that program's mounts show it, bound read-only over what
 * is at its path or over a placeholder. When the program has ended the value is overwritten, and
 * placeholders and directories made for them are gone: none of it can get into a layer.
 * A variable is only checked and counted here: its value goes straight on to the program.
 *
 * Before a pause the values are overwritten with zeros where they are; the program goes on only
 * when each has come again.
 */
#pragma once

#include "base/arena.h"
#include "guest/user.h"
#include "protocol/message.h"

struct secret_file;      /* one value */
struct secret_mount;     /* what is bound as one: a file, or a directory of some */
struct secret_directory; /* made for a path of them */
struct secret_variable;  /* one that came again, until it is passed on */

struct secrets {
    struct secrets *next;
    struct arena arena;
    uint32_t program;
    struct secret_file *files, *last_file;
    struct secret_mount *mounts, *last_mount;
    struct secret_directory *directories;
    struct secret_variable *variables;
    size_t n;         /* all that came, variables too */
    size_t n_again;   /* of them since secrets_zero */
    bool is_complete; /* SECRETS_END came */
    bool is_zero;     /* secrets_zero, and SECRETS_END did not come again */
};

/* Makes the tmpfs while there is time, and directories on it; else the first secret does. */
void secrets_prepare(void);

/* How the files of a task that waits may be shown: a directory that the image lacks and that is
 * not in the workspace is bound as a whole, read-only, instead of each file in it. */
struct secrets_grouping {
    const char *workspace; /* or NULL */
};

/* Takes one value into the set of its program, which is made when it is the first. The caller
 * wipes the message. ERR_FORBIDDEN: a path or a variable that no secret may have. `grouping` is
 * NULL for a program that is still to be launched. */
bool secrets_add(struct secrets **sets, const struct message_secret *secret,
                 const struct secrets_grouping *grouping, struct error *err) MUST_USE;

bool secrets_complete(struct secrets *sets, const struct message_secrets_end *end,
                      struct error *err) MUST_USE;

/* Takes the set of a program that is launched off the list; NULL: it has none. ERR_INVALID when
 * the set has not ended. */
bool secrets_take(struct secrets **sets, uint32_t program, struct secrets **set,
                  struct error *err) MUST_USE;

/* In the agent: gives the files to the program's user and makes what they are to be bound on.
 * ERR_FORBIDDEN: a link on the way, or something at the path that is no file. */
bool secrets_place(struct secrets *set, const struct user *user, struct error *err) MUST_USE;

/* Where a program that runs already has its mounts. */
struct secrets_program {
    int mounts;       /* the namespace; -1 when it shares the agent's table of mounts */
    const char *root; /* with a shared table */
    const struct user *user;
};

/* After secrets_place, for a program that runs: binds everything in the program's mounts and then
 * looks at it with the rights of the program's user. ERR_UNPROCESSABLE: it cannot be read. */
bool secrets_attach(const struct secrets *set, const struct secrets_program *program,
                    struct error *err) MUST_USE;

/* In the program's init, below its root; changes the current directory. */
bool secrets_bind(const struct secrets *set, const char *root, struct error *err) MUST_USE;

/* In the program, as its user: NULL, or the path that cannot be read, with errno. */
const char *secrets_unreadable(const struct secrets *set);

/* Before a pause: every value becomes zeros, in the same file and of the same length. Again is
 * fine. Accepts NULL. On failure nothing may be saved. */
bool secrets_zero(struct secrets *set, struct error *err) MUST_USE;

/* After secrets_zero: the value of one that the set has, in the same file. A variable is kept
 * until secrets_variables. ERR_INVALID: the set has no such secret. The caller wipes the message.
 */
bool secrets_rewrite(struct secrets *set, const struct message_secret *secret,
                     struct error *err) MUST_USE;

/* SECRETS_END after secrets_rewrite: ERR_INVALID unless every secret has come again. */
bool secrets_rewritten(struct secrets *set, const struct message_secrets_end *end,
                       struct error *err) MUST_USE;

/* Hands the variables that came again to `take` and forgets them; `take` may be NULL. Accepts a
 * NULL set. */
typedef void secrets_take_variable(void *arg, struct str name, struct str value);
void secrets_variables(struct secrets *set, secrets_take_variable *take, void *arg);

/* Overwrites the values and takes everything away. `root` is that of the program when its mounts
 * outlive it, else NULL. Accepts NULL. */
void secrets_destroy(struct secrets *set, const char *root);

/* What of ours is at a path inside the root: something to bind on, or a directory made for one,
 * in which a program may have put things of its own. Accepts NULL. */
enum secrets_trace { SECRETS_NO_TRACE, SECRETS_PLACEHOLDER, SECRETS_DIRECTORY };
enum secrets_trace secrets_trace(const struct secrets *set, struct str path);
