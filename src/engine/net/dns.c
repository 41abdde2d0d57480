#include "engine/net/dns.h"

#include <ctype.h>
#include <string.h>

enum {
    FLAG_RESPONSE = 0x8000,
    FLAG_TRUNCATED = 0x0200,
    FLAG_RECURSION_DESIRED = 0x0100,
    FLAG_RECURSION_AVAILABLE = 0x0080,
    OPCODE_MASK = 0x7800,
    CLASS_IN = 1,
    RECORDS_MAX = 64,
    CHAIN_MAX = 16,
    JUMPS_MAX = 32,
};

/* Records that may pass, with where names hide in their data. */
static const struct shape {
    uint16_t type;
    uint8_t before; /* plain bytes first */
    uint8_t names;  /* then so many names */
    uint8_t after;  /* then exactly so many bytes */
    bool is_opaque; /* nothing inside to look at */
} shapes[] = {
    {DNS_A,     4, 0, 0,  false},
    {2,         0, 1, 0,  false}, /* NS */
    {DNS_CNAME, 0, 1, 0,  false},
    {6,         0, 2, 20, false}, /* SOA */
    {12,        0, 1, 0,  false}, /* PTR */
    {15,        2, 1, 0,  false}, /* MX */
    {16,        0, 0, 0,  true }, /* TXT */
    {33,        6, 1, 0,  false}, /* SRV */
    {257,       0, 0, 0,  true }, /* CAA */
};

static const struct shape *shape_find(uint16_t type)
{
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        if (shapes[i].type == type)
            return &shapes[i];
    }
    return NULL;
}

struct cursor {
    const uint8_t *bytes;
    size_t len, at;
};

struct record {
    struct dns_name owner, target; /* target: of a CNAME */
    uint16_t type;
    uint32_t ttl;
    size_t data, data_len; /* within the message */
};

static bool take_u16(struct cursor *cursor, uint16_t *value)
{
    if (cursor->len - cursor->at < 2)
        return false;
    *value = (uint16_t)(cursor->bytes[cursor->at] << 8 | cursor->bytes[cursor->at + 1]);
    cursor->at += 2;
    return true;
}

static bool take_u32(struct cursor *cursor, uint32_t *value)
{
    uint16_t high, low;

    if (!take_u16(cursor, &high) || !take_u16(cursor, &low))
        return false;
    *value = (uint32_t)high << 16 | low;
    return true;
}

static bool label_append(struct dns_name *name, const uint8_t *label, size_t len)
{
    /* One byte stays for the end; 254 with it is 253 characters of text. */
    if (name->len + 1 + len + 1 > DNS_NAME_MAX)
        return false;
    name->wire[name->len++] = (uint8_t)len;
    for (size_t i = 0; i < len; i++) {
        if (label[i] <= ' ' || label[i] >= 0x7f || label[i] == '.')
            return false;
        name->wire[name->len++] = (uint8_t)tolower(label[i]);
    }
    return true;
}

/* Pointers must lead backwards, and there may be few of them, so this ends. */
static bool take_name(struct cursor *cursor, bool may_jump, struct dns_name *name)
{
    size_t at = cursor->at, limit = cursor->len;
    int jumps = 0;

    name->len = 0;
    for (;;) {
        if (at >= limit)
            return false;
        uint8_t len = cursor->bytes[at];
        if ((len & 0xc0) == 0xc0) {
            if (!may_jump || at + 1 >= limit || jumps++ >= JUMPS_MAX)
                return false;
            size_t to = (size_t)(len & 0x3f) << 8 | cursor->bytes[at + 1];
            if (to >= at)
                return false;
            if (jumps == 1)
                cursor->at = at + 2;
            at = to;
            continue;
        }
        if (len > 63 || at + 1 + len > limit)
            return false;
        if (len > 0 && !label_append(name, cursor->bytes + at + 1, len))
            return false;
        at += 1 + (size_t)len;
        if (len == 0)
            break;
    }
    if (jumps == 0)
        cursor->at = at;
    name->wire[name->len++] = 0;
    return true;
}

static bool name_equal(const struct dns_name *a, const struct dns_name *b)
{
    return a->len == b->len && memcmp(a->wire, b->wire, a->len) == 0;
}

static bool take_header(struct cursor *cursor, uint16_t fields[6])
{
    for (int i = 0; i < 6; i++) {
        if (!take_u16(cursor, &fields[i]))
            return false;
    }
    return true;
}

/* What comes after the question of a query: nothing but options matters. */
static bool skip_options(struct cursor *cursor, uint16_t count, struct dns_question *question)
{
    for (uint16_t i = 0; i < count; i++) {
        struct dns_name name;
        uint16_t type, size, len;
        uint32_t ttl;

        if (!take_name(cursor, true, &name) || !take_u16(cursor, &type) ||
            !take_u16(cursor, &size) || !take_u32(cursor, &ttl) || !take_u16(cursor, &len) ||
            cursor->len - cursor->at < len)
            return false;
        cursor->at += len;
        if (type != DNS_OPT)
            continue;
        question->has_options = true;
        if (size > 512)
            question->room = size < DNS_UDP_MAX ? size : DNS_UDP_MAX;
    }
    return true;
}

enum dns_code dns_question_parse(struct str message, struct dns_question *question)
{
    struct cursor cursor = {.bytes = (const uint8_t *)message.ptr, .len = message.len};
    uint16_t fields[6], class;

    *question = (struct dns_question){.room = 512};
    if (message.len > DNS_QUERY_MAX || !take_header(&cursor, fields) || (fields[1] & FLAG_RESPONSE))
        return DNS_DROP;
    question->id = fields[0];
    question->wants_recursion = fields[1] & FLAG_RECURSION_DESIRED;
    if (fields[1] & OPCODE_MASK)
        return DNS_NOT_IMPLEMENTED;
    if (fields[2] != 1 || fields[3] != 0 || fields[4] != 0 || fields[5] > 2)
        return DNS_FORMAT_ERROR;
    if (!take_name(&cursor, false, &question->name) || !take_u16(&cursor, &question->type) ||
        !take_u16(&cursor, &class))
        return DNS_FORMAT_ERROR;
    question->asked_len = cursor.at - DNS_HEADER_LEN;
    memcpy(question->asked, cursor.bytes + DNS_HEADER_LEN, question->asked_len);
    if (!skip_options(&cursor, fields[5], question))
        return DNS_FORMAT_ERROR;
    if (class != CLASS_IN)
        return DNS_REFUSED;
    return question->type == DNS_AAAA || shape_find(question->type) ? DNS_OK : DNS_REFUSED;
}

static bool put(struct buf *out, const void *bytes, size_t len, struct error *err)
{
    return buf_append(out, (struct str){bytes, len}, err);
}

static bool put_u16(struct buf *out, unsigned value, struct error *err)
{
    const uint8_t bytes[2] = {(uint8_t)(value >> 8), (uint8_t)value};

    return put(out, bytes, 2, err);
}

static bool put_header(struct buf *out, uint16_t id, unsigned flags, const unsigned counts[4],
                       struct error *err)
{
    bool ok = put_u16(out, id, err) && put_u16(out, flags, err);

    for (int i = 0; ok && i < 4; i++)
        ok = put_u16(out, counts[i], err);
    return ok;
}

static bool put_options(struct buf *out, struct error *err)
{
    static const uint8_t options[] = {0, 0, DNS_OPT, DNS_UDP_MAX >> 8, DNS_UDP_MAX & 255, 0, 0, 0,
                                      0, 0, 0};

    return put(out, options, sizeof(options), err);
}

bool dns_query_write(const struct dns_question *question, uint16_t id, struct buf *out,
                     struct error *err)
{
    return put_header(out, id, FLAG_RECURSION_DESIRED, (const unsigned[]){1, 0, 0, 1}, err) &&
           put(out, question->name.wire, question->name.len, err) &&
           put_u16(out, question->type, err) && put_u16(out, CLASS_IN, err) &&
           put_options(out, err);
}

static bool put_answer_head(const struct dns_question *question, unsigned flags, enum dns_code code,
                            unsigned n_answers, struct buf *out, struct error *err)
{
    flags |= FLAG_RESPONSE | FLAG_RECURSION_AVAILABLE | (unsigned)code;
    if (question->wants_recursion)
        flags |= FLAG_RECURSION_DESIRED;
    const unsigned counts[4] = {question->asked_len ? 1 : 0, n_answers, 0,
                                question->has_options ? 1 : 0};
    return put_header(out, question->id, flags, counts, err) &&
           put(out, question->asked, question->asked_len, err);
}

static bool put_empty(const struct dns_question *question, unsigned flags, enum dns_code code,
                      struct buf *out, struct error *err)
{
    return put_answer_head(question, flags, code, 0, out, err) &&
           (!question->has_options || put_options(out, err));
}

bool dns_answer_empty(const struct dns_question *question, enum dns_code code, struct buf *out,
                      struct error *err)
{
    return put_empty(question, 0, code, out, err);
}

static bool take_record(struct cursor *cursor, struct record *record)
{
    uint16_t class, len;

    if (!take_name(cursor, true, &record->owner) || !take_u16(cursor, &record->type) ||
        !take_u16(cursor, &class) || !take_u32(cursor, &record->ttl) || !take_u16(cursor, &len) ||
        cursor->len - cursor->at < len)
        return false;
    record->data = cursor->at;
    record->data_len = len;
    cursor->at += len;
    if (class != CLASS_IN)
        record->type = 0;
    if (record->type != DNS_CNAME)
        return true;

    /* Within the whole message, for pointers; but it must end with the record. */
    struct cursor inner = {.bytes = cursor->bytes, .len = cursor->at, .at = record->data};
    return take_name(&inner, true, &record->target) && inner.at == cursor->at;
}

static bool data_rewrite(const struct cursor *message, const struct record *record,
                         const struct shape *shape, struct buf *out, struct error *err)
{
    struct cursor inner = {.bytes = message->bytes,
                           .len = record->data + record->data_len,
                           .at = record->data};
    struct dns_name name;

    if (shape->is_opaque)
        return put(out, inner.bytes + inner.at, record->data_len, err);
    if (record->data_len < (size_t)shape->before + shape->after)
        return error_set(err, ERR_INVALID, "a record is too short");
    if (!put(out, inner.bytes + inner.at, shape->before, err))
        return false;
    inner.at += shape->before;
    for (int i = 0; i < shape->names; i++) {
        if (!take_name(&inner, true, &name))
            return error_set(err, ERR_INVALID, "a record has no proper name");
        if (!put(out, name.wire, name.len, err))
            return false;
    }
    if (inner.len - inner.at != shape->after)
        return error_set(err, ERR_INVALID, "a record has the wrong length");
    return put(out, inner.bytes + inner.at, shape->after, err);
}

static bool record_write(const struct cursor *message, const struct record *record, struct buf *out,
                         struct error *err)
{
    const struct shape *shape = shape_find(record->type);
    uint32_t ttl = record->ttl < DNS_TTL_MAX ? record->ttl : DNS_TTL_MAX;
    size_t len_at;

    if (!put(out, record->owner.wire, record->owner.len, err) || !put_u16(out, record->type, err) ||
        !put_u16(out, CLASS_IN, err) || !put_u16(out, 0, err) || !put_u16(out, ttl, err))
        return false;
    len_at = out->len;
    if (!put_u16(out, 0, err) || !data_rewrite(message, record, shape, out, err))
        return false;

    size_t len = out->len - len_at - 2;
    out->bytes[len_at] = (char)(len >> 8);
    out->bytes[len_at + 1] = (char)len;
    return true;
}

struct answer {
    struct record records[RECORDS_MAX];
    size_t n;
    struct buf kept; /* written records */
    unsigned n_kept;
    bool has_blocked;
};

static bool is_blocked(const struct cursor *message, const struct record *record,
                       const struct dns_filter *filter)
{
    const uint8_t *at = message->bytes + record->data;

    if (record->type != DNS_A || record->data_len != 4)
        return false;
    return filter->blocks(filter->arg, (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
                                           (uint32_t)at[2] << 8 | at[3]);
}

static bool keep(struct answer *answer, const struct cursor *message, const struct record *record,
                 struct error *err)
{
    answer->n_kept++;
    return record_write(message, record, &answer->kept, err);
}

/* From the question along aliases to the records asked for; whatever else came is dropped. */
static bool follow(struct answer *answer, const struct cursor *message,
                   const struct dns_question *question, const struct dns_filter *filter,
                   struct error *err)
{
    const struct dns_name *current = &question->name;
    size_t n_found = 0;

    for (int hops = 0; question->type != DNS_CNAME && hops < CHAIN_MAX; hops++) {
        const struct record *alias = NULL;
        for (size_t i = 0; i < answer->n && !alias; i++) {
            if (answer->records[i].type == DNS_CNAME &&
                name_equal(&answer->records[i].owner, current))
                alias = &answer->records[i];
        }
        if (!alias)
            break;
        if (!keep(answer, message, alias, err))
            return false;
        current = &alias->target;
    }
    for (size_t i = 0; i < answer->n; i++) {
        const struct record *record = &answer->records[i];
        if (record->type != question->type || !name_equal(&record->owner, current))
            continue;
        if (is_blocked(message, record, filter)) {
            answer->has_blocked = true;
            continue;
        }
        if (!keep(answer, message, record, err))
            return false;
        n_found++;
    }
    answer->has_blocked = answer->has_blocked && n_found == 0;
    return true;
}

static bool answer_read(struct cursor *cursor, const struct dns_question *question, uint16_t id,
                        uint16_t fields[6], struct answer *answer)
{
    struct dns_name name;
    uint16_t type, class;

    if (!take_header(cursor, fields) || fields[0] != id || !(fields[1] & FLAG_RESPONSE) ||
        (fields[1] & OPCODE_MASK) || fields[2] != 1)
        return false;
    if (!take_name(cursor, false, &name) || !take_u16(cursor, &type) || !take_u16(cursor, &class) ||
        !name_equal(&name, &question->name) || type != question->type || class != CLASS_IN)
        return false;
    for (uint16_t i = 0; i < fields[3] && answer->n < RECORDS_MAX; i++) {
        if (!take_record(cursor, &answer->records[answer->n]))
            return (fields[1] & FLAG_TRUNCATED) != 0;
        answer->n++;
    }
    return true;
}

static bool answer_write(const struct answer *answer, const struct dns_question *question,
                         enum dns_code code, size_t room, struct buf *out, struct error *err)
{
    size_t overhead = DNS_HEADER_LEN + question->asked_len + (question->has_options ? 11 : 0);

    if (code == DNS_OK && answer->has_blocked)
        code = DNS_NO_NAME;
    if (code != DNS_OK)
        return put_empty(question, 0, code, out, err);
    if (room && overhead + answer->kept.len > room)
        return put_empty(question, FLAG_TRUNCATED, DNS_OK, out, err);
    return put_answer_head(question, 0, DNS_OK, answer->n_kept, out, err) &&
           buf_append(out, buf_str(&answer->kept), err) &&
           (!question->has_options || put_options(out, err));
}

static void answer_finish(struct answer *answer)
{
    buf_finish(&answer->kept);
}

enum dns_verdict dns_answer_filter(struct str upstream, const struct dns_question *question,
                                   uint16_t id, const struct dns_filter *filter, size_t room,
                                   struct buf *out)
{
    struct cursor cursor = {.bytes = (const uint8_t *)upstream.ptr, .len = upstream.len};
    AUTO(answer_finish) struct answer answer = {.kept = {.max = DNS_MESSAGE_MAX}};
    uint16_t fields[6];
    struct error err = {0};

    if (upstream.len > DNS_MESSAGE_MAX || !answer_read(&cursor, question, id, fields, &answer))
        return DNS_NOT_OURS;
    if (fields[1] & FLAG_TRUNCATED)
        return DNS_TRUNCATED;

    enum dns_code code = (enum dns_code)(fields[1] & 15);
    if (code != DNS_OK && code != DNS_NO_NAME)
        code = DNS_SERVER_FAILURE;
    if (!follow(&answer, &cursor, question, filter, &err) ||
        !answer_write(&answer, question, code, room, out, &err))
        return DNS_NOT_OURS;
    return DNS_ANSWERED;
}
