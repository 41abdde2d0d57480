/* Memory that is freed all at once: one arena per request or decoded message.
 *
 * Nothing in an arena owns anything outside it. A zeroed arena is empty and ready;
 * arena_finish frees everything and leaves it ready again.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/str.h"

struct arena_block;

struct arena {
    struct arena_block *blocks;
};

void arena_finish(struct arena *arena);

/* Empty as after arena_finish, but with memory at hand for what comes next, wiped. */
void arena_reset(struct arena *arena);

/* Zeroed and aligned for any type. Never NULL: out of memory aborts. */
void *arena_alloc(struct arena *arena, size_t size);
void *arena_array(struct arena *arena, size_t count, size_t size);

/* Copies; the copy of a str is NUL-terminated one past its length. */
struct str arena_str(struct arena *arena, struct str text);
char *arena_text(struct arena *arena, struct str text);
char *arena_printf(struct arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3);
