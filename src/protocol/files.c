#include "protocol/files.h"

#include <string.h>

/* Where the fields of a head are. */
enum {
    AT_TYPE = 0,
    AT_MODE = 1,
    AT_SIZE = 5,
    AT_MTIME = 13,
    AT_NAME = 21,
    AT_TARGET = 23,
    HEAD = 25
};

static void put(uint8_t *to, size_t len, uint64_t value)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *from, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

bool files_entry_append(struct buf *out, const struct files_entry *entry, struct error *err)
{
    uint8_t head[HEAD];

    if (entry->name.len > FILES_NAME_MAX || entry->target.len > FILES_TARGET_MAX)
        return error_set(err, ERR_TOO_LARGE, "a name or target is too long");
    head[AT_TYPE] = (uint8_t)entry->type;
    put(head + AT_MODE, 4, entry->mode);
    put(head + AT_SIZE, 8, entry->size);
    put(head + AT_MTIME, 8, (uint64_t)entry->mtime_ns);
    put(head + AT_NAME, 2, entry->name.len);
    put(head + AT_TARGET, 2, entry->target.len);
    return buf_append(out, (struct str){(const char *)head, sizeof head}, err) &&
           (entry->name.len == 0 || buf_append(out, entry->name, err)) &&
           (entry->target.len == 0 || buf_append(out, entry->target, err));
}

static bool is_sound(const struct files_entry *entry)
{
    struct str name = entry->name;

    if (entry->type < FILES_FILE || entry->type > FILES_OTHER || entry->mode > 07777 ||
        entry->size > INT64_MAX || (entry->type == FILES_SYMLINK) != (entry->target.len > 0))
        return false;
    return name.len == 0 ||
           (!memchr(name.ptr, '/', name.len) && !memchr(name.ptr, '\0', name.len) &&
            !str_equal(name, STR(".")) && !str_equal(name, STR("..")));
}

bool files_entry_take(struct str *rest, struct files_entry *entry, struct error *err)
{
    const uint8_t *head = (const uint8_t *)rest->ptr;

    if (rest->len < HEAD)
        return error_set(err, ERR_INVALID, "an entry of a directory is cut short");
    size_t name_len = (size_t)get(head + AT_NAME, 2), target_len = (size_t)get(head + AT_TARGET, 2);
    if (name_len > FILES_NAME_MAX || target_len > FILES_TARGET_MAX ||
        name_len + target_len > rest->len - HEAD)
        return error_set(err, ERR_INVALID, "an entry of a directory is cut short");
    *entry = (struct files_entry){
        .type = (enum files_type)head[AT_TYPE],
        .mode = (uint32_t)get(head + AT_MODE, 4),
        .size = get(head + AT_SIZE, 8),
        .mtime_ns = (int64_t)get(head + AT_MTIME, 8),
        .name = {rest->ptr + HEAD,            name_len  },
        .target = {rest->ptr + HEAD + name_len, target_len},
    };
    size_t len = HEAD + name_len + target_len;
    *rest = (struct str){rest->ptr + len, rest->len - len};
    return is_sound(entry) || error_set(err, ERR_INVALID, "an entry of a directory is malformed");
}
