/* Which project and environment a command is about, out of flags, the nearest configuration file
 * and the server. The file is read, never evaluated.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"

/* The directory at or above `start` that has a helmr.config.*, and the file's name; *directory
 * NULL when none has. */
bool scope_find_config(const char *start, bool upwards, struct arena *arena, const char **directory,
                       const char **file, struct error *err) MUST_USE;

/* The literal `project: "…"` in the text of a configuration; false when there is none. */
bool scope_literal(struct str text, struct str *project);

/* The same out of the nearest file; *project NULL when there is none. */
bool scope_project(const char *start, struct arena *arena, const char **project,
                   struct error *err) MUST_USE;

/* Whether an object of the API (with id and slug) is what the user named. */
bool scope_names(struct str object, const char *given, struct arena *arena);
