#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "base/own.h"

struct arena_block {
    struct arena_block *next;
    size_t used, cap;
    max_align_t bytes[];
};

enum { BLOCK_MIN = 4000 };

void arena_finish(struct arena *arena)
{
    while (arena->blocks) {
        struct arena_block *block = arena->blocks;

        arena->blocks = block->next;
        free(block);
    }
}

void arena_reset(struct arena *arena)
{
    struct arena_block *kept = arena->blocks;

    if (!kept)
        return;
    arena->blocks = kept->next;
    arena_finish(arena);
    memset(kept->bytes, 0, kept->used);
    *kept = (struct arena_block){.cap = kept->cap};
    arena->blocks = kept;
}

static struct arena_block *block_add(struct arena *arena, size_t size)
{
    size_t cap = size > BLOCK_MIN ? size : BLOCK_MIN;
    struct arena_block *block = alloc(sizeof *block + cap);

    *block = (struct arena_block){.next = arena->blocks, .cap = cap};
    arena->blocks = block;
    return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    const size_t align = alignof(max_align_t);

    if (size > SIZE_MAX / 2)
        abort();
    size = (size + align - 1) / align * align;

    struct arena_block *block = arena->blocks;
    if (!block || block->cap - block->used < size)
        block = block_add(arena, size);

    void *memory = (char *)block->bytes + block->used;

    block->used += size;
    return memset(memory, 0, size);
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / 2 / size)
        abort();
    return arena_alloc(arena, count * size);
}

char *arena_text(struct arena *arena, struct str text)
{
    char *copy = arena_alloc(arena, text.len + 1);

    if (text.len)
        memcpy(copy, text.ptr, text.len);
    return copy;
}

struct str arena_str(struct arena *arena, struct str text)
{
    return (struct str){arena_text(arena, text), text.len};
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
    AUTO_FREE char *text = NULL;
    va_list args;

    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0)
        abort();
    return arena_text(arena, (struct str){text, (size_t)len});
}
