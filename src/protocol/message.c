#include "protocol/message.h"

#include <stddef.h>

enum presence { PRESENCE_REQUIRED = 1, PRESENCE_OPTIONAL = 0 };

enum senders {
    FROM_HOST = SIDE_HOST,
    FROM_GUEST = SIDE_GUEST,
    FROM_HOST_OR_GUEST = SIDE_HOST | SIDE_GUEST,
    FROM_AGENT = SIDE_AGENT,
    FROM_ADAPTER = SIDE_ADAPTER,
    FROM_ANY = SIDE_HOST | SIDE_GUEST | SIDE_AGENT | SIDE_ADAPTER,
};

/* Every array starts with an empty row, so that a message without fields is legal C. */
#define NO_FIELD {0}
#define MESSAGE(NAME, name, number, senders, limit) \
    static const struct message_field name##_fields[] = {NO_FIELD,
#define FIELD(message, number, field, kind, presence, min, max, items)                             \
    {#field, number, FIELD_##kind, PRESENCE_##presence, offsetof(struct message_##message, field), \
     min,    max,    items},
#define END(name) \
    }             \
    ;
#include "protocol/messages.def"

static const struct message_info infos[] = {
#define MESSAGE(NAME, name, number, senders, limit) \
    {#NAME,                                         \
     MESSAGE_##NAME,                                \
     senders,                                       \
     limit,                                         \
     sizeof(struct message_##name),                 \
     name##_fields + 1,                             \
     COUNT_OF(name##_fields) - 1},
#include "protocol/messages.def"
};

const struct message_info *message_info(unsigned number)
{
    for (size_t i = 0; i < COUNT_OF(infos); i++) {
        if ((unsigned)infos[i].type == number)
            return &infos[i];
    }
    return NULL;
}

/* The length of the UTF-8 sequence at p, or 0 when it is none or is NUL. */
static size_t sequence_len(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80)
        return p[0] != 0;

    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len > left)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    bool is_overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool is_surrogate = p[0] == 0xed && p[1] > 0x9f;
    bool is_too_high = p[0] == 0xf4 && p[1] > 0x8f;
    return is_overlong || is_surrogate || is_too_high ? 0 : len;
}

bool message_text_is_valid(struct str text)
{
    const unsigned char *bytes = (const unsigned char *)text.ptr;

    for (size_t at = 0; at < text.len;) {
        size_t len = sequence_len(bytes + at, text.len - at);
        if (len == 0)
            return false;
        at += len;
    }
    return true;
}

static bool check_value(const struct message_info *info, const struct message_field *field,
                        struct str value, struct error *err)
{
    if (value.len < field->min || value.len > field->max)
        return error_set(err, ERR_INVALID, "%s.%s has %zu bytes, allowed are %zu to %zu",
                         info->name, field->name, value.len, field->min, field->max);
    if (field->kind == FIELD_TEXT && !message_text_is_valid(value))
        return error_set(err, ERR_INVALID, "%s.%s is not UTF-8 text", info->name, field->name);
    if (field->kind == FIELD_LIST && value.len && memchr(value.ptr, 0, value.len))
        return error_set(err, ERR_INVALID, "%s.%s has a NUL", info->name, field->name);
    return true;
}

static bool append_number(struct buf *out, uint64_t value, size_t len, struct error *err)
{
    char bytes[8];

    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(value >> (8 * i));
    return buf_append(out, (struct str){bytes, len}, err);
}

static bool append_value(const struct message_info *info, const struct message_field *field,
                         struct str value, struct buf *out, struct error *err)
{
    return check_value(info, field, value, err) && append_number(out, field->number, 1, err) &&
           append_number(out, field->kind, 1, err) && append_number(out, value.len, 4, err) &&
           buf_append(out, value, err);
}

static bool encode_number(const struct message_field *field, uint64_t value, struct buf *out,
                          struct error *err)
{
    if (value == 0 && !field->is_required)
        return true;
    return append_number(out, field->number, 1, err) && append_number(out, field->kind, 1, err) &&
           append_number(out, value, field->max, err);
}

static bool encode_bytes(const struct message_info *info, const struct message_field *field,
                         const struct str *value, struct buf *out, struct error *err)
{
    if (!value->ptr && !field->is_required)
        return true;
    return append_value(info, field, *value, out, err);
}

static bool encode_list(const struct message_info *info, const struct message_field *field,
                        const struct str_list *list, struct buf *out, struct error *err)
{
    if (list->n > field->max_items)
        return error_set(err, ERR_INVALID, "%s.%s has over %zu elements", info->name, field->name,
                         field->max_items);
    for (size_t i = 0; i < list->n; i++) {
        if (!append_value(info, field, list->items[i], out, err))
            return false;
    }
    return true;
}

static bool encode_field(const struct message_info *info, const struct message_field *field,
                         const void *value, struct buf *out, struct error *err)
{
    switch (field->kind) {
    case FIELD_U32: return encode_number(field, *(const uint32_t *)value, out, err);
    case FIELD_U64: return encode_number(field, *(const uint64_t *)value, out, err);
    case FIELD_BYTES:
    case FIELD_TEXT: return encode_bytes(info, field, value, out, err);
    case FIELD_LIST: return encode_list(info, field, value, out, err);
    }
    return error_set(err, ERR_INTERNAL, "%s.%s has no kind", info->name, field->name);
}

bool message_encode(enum message_type type, const void *message, struct buf *out, struct error *err)
{
    const struct message_info *info = message_info(type);

    if (!info)
        return error_set(err, ERR_INTERNAL, "no message has the number %d", (int)type);
    return fields_encode(info, message, out, err);
}

bool fields_encode(const struct message_info *info, const void *message, struct buf *out,
                   struct error *err)
{
    size_t before = out->len;

    for (size_t i = 0; i < info->n_fields; i++) {
        const struct message_field *field = &info->fields[i];
        if (!encode_field(info, field, (const char *)message + field->offset, out, err)) {
            out->len = before;
            return false;
        }
    }
    if (out->len - before > info->limit) {
        out->len = before;
        return error_set(err, ERR_TOO_LARGE, "%s is over %zu bytes", info->name, info->limit);
    }
    return true;
}

struct reader {
    const struct message_info *info;
    struct str rest;
    struct arena *arena;
};

static uint64_t number_at(const char *bytes, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++)
        value |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
    return value;
}

static struct str cut(struct str *rest, size_t len)
{
    struct str piece = {rest->ptr, len};

    rest->ptr += len;
    rest->len -= len;
    return piece;
}

/* Takes one `number kind value`; numbers come as their little-endian bytes. */
static bool read_item(struct reader *reader, uint8_t *number, uint8_t *kind, struct str *value,
                      struct error *err)
{
    const char *name = reader->info->name;

    if (reader->rest.len < 2)
        return error_set(err, ERR_INVALID, "%s ends inside a field", name);
    *number = (uint8_t)reader->rest.ptr[0];
    *kind = (uint8_t)reader->rest.ptr[1];
    cut(&reader->rest, 2);

    size_t len = *kind == FIELD_U32 ? 4 : 8;
    if (*kind < FIELD_U32 || *kind > FIELD_LIST)
        return error_set(err, ERR_INVALID, "%s field %d has an unknown kind", name, *number);
    if (*kind > FIELD_U64) {
        if (reader->rest.len < 4)
            return error_set(err, ERR_INVALID, "%s ends inside a length", name);
        len = (size_t)number_at(cut(&reader->rest, 4).ptr, 4);
    }
    if (len > reader->rest.len)
        return error_set(err, ERR_INVALID, "%s field %d is cut off", name, *number);
    *value = cut(&reader->rest, len);
    return true;
}

static const struct message_field *find_field(const struct message_info *info, uint8_t number)
{
    for (size_t i = 0; i < info->n_fields; i++) {
        if (info->fields[i].number == number)
            return &info->fields[i];
    }
    return NULL;
}

/* The elements of a list are counted first, so that the array is made once. */
static bool count_items(struct reader ahead, const struct message_field *field, size_t *count,
                        struct error *err)
{
    size_t n = 1;

    while (ahead.rest.len && (uint8_t)ahead.rest.ptr[0] == field->number) {
        uint8_t number = 0, kind = 0;
        struct str value = {0};
        if (!read_item(&ahead, &number, &kind, &value, err))
            return false;
        n++;
    }
    if (n > field->max_items)
        return error_set(err, ERR_INVALID, "%s.%s has over %zu elements", ahead.info->name,
                         field->name, field->max_items);
    *count = n;
    return true;
}

static bool store_element(struct reader *reader, const struct message_field *field,
                          struct str value, struct str_list *list, struct error *err)
{
    if (!list->items) {
        size_t count = 0;
        if (!count_items(*reader, field, &count, err))
            return false;
        list->items = arena_array(reader->arena, count, sizeof(struct str));
    }
    ((struct str *)list->items)[list->n++] = value;
    return true;
}

static bool store_field(struct reader *reader, const struct message_field *field, struct str value,
                        void *slot, struct error *err)
{
    if (!check_value(reader->info, field, value, err))
        return false;
    switch (field->kind) {
    case FIELD_U32: *(uint32_t *)slot = (uint32_t)number_at(value.ptr, 4); return true;
    case FIELD_U64: *(uint64_t *)slot = number_at(value.ptr, 8); return true;
    case FIELD_BYTES:
    case FIELD_TEXT: *(struct str *)slot = value; return true;
    case FIELD_LIST: return store_element(reader, field, value, slot, err);
    }
    return error_set(err, ERR_INTERNAL, "a field has no kind");
}

/* Numbers ascend; only the elements of one list repeat theirs. Unknown fields from 128 on
 * are a later version's and are passed over. */
static bool read_field(struct reader *reader, uint8_t *last, bool seen[256], void *message,
                       struct error *err)
{
    const struct message_info *info = reader->info;
    uint8_t number = 0, kind = 0;
    struct str value = {0};

    if (!read_item(reader, &number, &kind, &value, err))
        return false;
    if (number < *last || number == 0 || (number == *last && kind != FIELD_LIST))
        return error_set(err, ERR_INVALID, "%s field %d is out of order", info->name, number);
    *last = number;

    const struct message_field *field = find_field(info, number);
    if (!field && number >= 128)
        return true;
    if (!field)
        return error_set(err, ERR_INVALID, "%s has no field %d", info->name, number);
    if (field->kind != kind)
        return error_set(err, ERR_INVALID, "%s.%s has another kind", info->name, field->name);
    seen[number] = true;
    return store_field(reader, field, value, (char *)message + field->offset, err);
}

bool message_decode(enum message_type type, struct str body, struct arena *arena, void *message,
                    struct error *err)
{
    const struct message_info *info = message_info(type);

    if (!info)
        return error_set(err, ERR_INVALID, "no message has the number %d", (int)type);
    return fields_decode(info, body, arena, message, err);
}

bool fields_decode(const struct message_info *info, struct str body, struct arena *arena,
                   void *message, struct error *err)
{
    bool seen[256] = {0};
    uint8_t last = 0;

    if (body.len > info->limit)
        return error_set(err, ERR_TOO_LARGE, "%s is over %zu bytes", info->name, info->limit);
    memset(message, 0, info->size);

    struct reader reader = {info, body, arena};
    while (reader.rest.len) {
        if (!read_field(&reader, &last, seen, message, err))
            return false;
    }
    for (size_t i = 0; i < info->n_fields; i++) {
        if (info->fields[i].is_required && !seen[info->fields[i].number])
            return error_set(err, ERR_INVALID, "%s lacks %s", info->name, info->fields[i].name);
    }
    return true;
}
