/* Settings: variables of the process, and below them a file of KEY=VALUE lines.
 *
 * A variable that is set but empty counts as unset. An error always names the variable, and
 * never shows the value of one that may hold a key.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "base/secret.h"

struct env {
    struct map values; /* of the file: name to text */
    struct arena arena;
};

struct env_pair {
    const char *name, *value;
};

/* KEY=VALUE lines: optional `export`, 'literal', "with \n \r \t \" \\", blank and # lines, and a
 * trailing ` # comment` on unquoted values. ERR_INVALID names the line. The pairs live in the
 * arena, in the order written; of two with one name the later wins. */
bool env_parse(struct str text, struct arena *arena, struct env_pair **pairs, size_t *n,
               struct error *err) MUST_USE;

/* Reads the file below the process's own variables. One that does not exist is empty. */
bool env_load(struct env *env, const char *path, struct error *err) MUST_USE;
void env_finish(struct env *env);

/* The value, or NULL. Borrowed from the environment or from `env`. */
const char *env_find(const struct env *env, const char *name);
const char *env_text(const struct env *env, const char *name, const char *otherwise);

/* Out-parameters hold `otherwise` when the variable is not set. */
bool env_int(const struct env *env, const char *name, int64_t min, int64_t max, int64_t otherwise,
             int64_t *value, struct error *err) MUST_USE;
bool env_bool(const struct env *env, const char *name, bool otherwise, bool *value,
              struct error *err) MUST_USE; /* 1 true yes on, 0 false no off */
/* Bytes: a number, or one with KiB, MiB, GiB or TiB. */
bool env_size(const struct env *env, const char *name, int64_t otherwise, int64_t *bytes,
              struct error *err) MUST_USE;

/* NAME or the contents of the file that NAME_FILE names, without a final newline; both set is an
 * error; neither leaves *value unset. */
bool env_secret(const struct env *env, const char *name, struct secret *value,
                struct error *err) MUST_USE;

/* The next variable with this prefix that is in none of the names (ended by NULL), for a warning
 * at start; start with *at = 0. `NAME_FILE` counts as known when NAME is. */
bool env_unknown(struct env *env, const char *prefix, const char *const *names, size_t *at,
                 const char **name);
