/* One filled struct of every message, for the golden bytes and the round trips. Each field gets
 * a value that follows from its place in the table, so that a new field is covered at once. */
#pragma once

#include "base/own.h"
#include "protocol/frame.h"

/* Decides the values; equal salts give equal samples. */
static inline char sample_byte(const struct message_field *field, size_t at, unsigned salt)
{
    return (char)('a' + (field->number + at + salt) % 26);
}

static inline struct str sample_bytes(struct arena *arena, const struct message_field *field,
                                      unsigned salt)
{
    size_t len = field->min ? field->min : 1 + (field->number + salt) % 5;
    char *bytes = arena_alloc(arena, len + 1);

    for (size_t i = 0; i < len; i++)
        bytes[i] = sample_byte(field, i, salt);
    return (struct str){bytes, len};
}

static inline struct str_list sample_list(struct arena *arena, const struct message_field *field)
{
    struct str *items = arena_array(arena, 2, sizeof *items);

    for (unsigned i = 0; i < 2; i++)
        items[i] = sample_bytes(arena, field, i);
    return (struct str_list){items, 2};
}

static inline void sample_fill(struct arena *arena, const struct message_info *info,
                               struct message *message)
{
    *message = (struct message){.type = info->type};
    for (size_t i = 0; i < info->n_fields; i++) {
        const struct message_field *field = &info->fields[i];
        void *slot = (char *)&message->hello + field->offset;
        switch (field->kind) {
        case FIELD_U32: *(uint32_t *)slot = 0x01020300u + field->number; break;
        case FIELD_U64: *(uint64_t *)slot = 0x0102030405060700u + field->number; break;
        case FIELD_BYTES:
        case FIELD_TEXT: *(struct str *)slot = sample_bytes(arena, field, 0); break;
        case FIELD_LIST: *(struct str_list *)slot = sample_list(arena, field); break;
        }
    }
}
