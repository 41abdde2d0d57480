#include "model/zone.h"

#include "base/own.h"

enum {
    HEAD = 44,
    CHANGES_MAX = 4096,
    TYPES_MAX = 256,
    TYPE_BYTES = 6,
    OFFSET_MAX = 26 * 3600,
    PIECES_MAX = 3,
};

/* Far outside of all history, and far from overflow when an offset is added. */
#define INSTANT_MAX (INT64_C(1) << 60)

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_name_byte(char c)
{
    return is_upper(c) || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '+';
}

/* All zones begin with a capital; files that are something else do not. */
bool zone_name_is_valid(struct str name)
{
    struct str rest = name, piece;
    size_t n = 0;

    if (!name.len || name.len > ZONE_NAME_MAX)
        return false;
    while (str_split(&rest, '/', &piece)) {
        if (++n > PIECES_MAX || !piece.len || !is_upper(piece.ptr[0]))
            return false;
        for (size_t i = 0; i < piece.len; i++)
            if (!is_name_byte(piece.ptr[i]))
                return false;
    }
    return true;
}

/* One of the two blocks of a file. */
struct block {
    struct str bytes; /* what follows its head */
    size_t n_utc, n_standard, n_leaps, n_changes, n_types, n_chars;
    size_t time_bytes; /* of an instant */
};

static uint64_t big_endian(const char *bytes, size_t n)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++)
        value = value << 8 | (uint8_t)bytes[i];
    return value;
}

static size_t block_len(const struct block *block)
{
    return block->n_changes * (block->time_bytes + 1) + block->n_types * TYPE_BYTES +
           block->n_chars + block->n_leaps * (block->time_bytes + 4) + block->n_standard +
           block->n_utc;
}

static bool read_head(struct str bytes, size_t time_bytes, struct block *block)
{
    size_t *const counts[] = {&block->n_utc,     &block->n_standard, &block->n_leaps,
                              &block->n_changes, &block->n_types,    &block->n_chars};

    /* Version 1 has neither wide instants nor a rule. */
    if (bytes.len < HEAD || memcmp(bytes.ptr, "TZif", 4) != 0 || bytes.ptr[4] < '2')
        return false;
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        *counts[i] = big_endian(bytes.ptr + 20 + 4 * i, 4);
        if (*counts[i] > CHANGES_MAX)
            return false;
    }
    block->bytes = (struct str){bytes.ptr + HEAD, bytes.len - HEAD};
    block->time_bytes = time_bytes;
    return block_len(block) <= block->bytes.len && block->n_types >= 1 &&
           block->n_types <= TYPES_MAX;
}

static bool read_offset(const struct block *block, size_t type, int32_t *offset)
{
    const char *types = block->bytes.ptr + block->n_changes * (block->time_bytes + 1);

    if (type >= block->n_types)
        return false;
    *offset = (int32_t)big_endian(types + type * TYPE_BYTES, 4);
    return *offset > -OFFSET_MAX && *offset < OFFSET_MAX;
}

static bool read_changes(const struct block *block, struct arena *arena, struct zone *zone)
{
    const char *times = block->bytes.ptr, *types = times + block->n_changes * block->time_bytes;
    struct zone_change *changes = arena_array(arena, block->n_changes + 1, sizeof *changes);

    for (size_t i = 0; i < block->n_changes; i++) {
        changes[i].at = (int64_t)big_endian(times + i * block->time_bytes, block->time_bytes);
        if (changes[i].at < -INSTANT_MAX || changes[i].at > INSTANT_MAX ||
            (i > 0 && changes[i].at <= changes[i - 1].at) ||
            !read_offset(block, (uint8_t)types[i], &changes[i].offset))
            return false;
    }
    zone->changes = changes;
    zone->n_changes = block->n_changes;
    return read_offset(block, 0, &zone->first);
}

/* "\nEST5EDT,M3.2.0,M11.1.0\n"; an empty one knows nothing of the future. */
static bool read_footer(struct str bytes, struct zone *zone)
{
    if (bytes.len < 2 || bytes.ptr[0] != '\n' || bytes.ptr[bytes.len - 1] != '\n')
        return false;
    struct str rule = {bytes.ptr + 1, bytes.len - 2};
    zone->has_rule = rule.len > 0;
    return !zone->has_rule || zone_rule_parse(rule, &zone->rule);
}

static bool read_file(struct str bytes, struct arena *arena, struct zone *zone)
{
    struct block old = {0}, block = {0};

    if (bytes.len > ZONE_FILE_MAX || !read_head(bytes, 4, &old))
        return false;
    size_t skip = block_len(&old);
    if (!read_head((struct str){old.bytes.ptr + skip, old.bytes.len - skip}, 8, &block) ||
        block.n_leaps)
        return false;
    size_t len = block_len(&block);
    return read_changes(&block, arena, zone) &&
           read_footer((struct str){block.bytes.ptr + len, block.bytes.len - len}, zone);
}

bool zone_parse(struct str bytes, struct arena *arena, struct zone *zone, struct error *err)
{
    struct zone made = {0};

    if (!read_file(bytes, arena, &made))
        return error_set(err, ERR_TIMEZONE, "the file of the time zone cannot be read");
    *zone = made;
    return true;
}

/* How many changes are at or before the instant. */
static size_t count_before(const struct zone *zone, int64_t at)
{
    size_t low = 0, high = zone->n_changes;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (zone->changes[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct zone_span zone_span(const struct zone *zone, int64_t at)
{
    size_t n = count_before(zone, at);
    struct zone_span span = {.until = INT64_MAX};

    if (n == zone->n_changes && zone->has_rule) {
        span.offset = zone_rule_offset(&zone->rule, at, &span.until);
        return span;
    }
    span.offset = n > 0 ? zone->changes[n - 1].offset : zone->first;
    if (n < zone->n_changes)
        span.until = zone->changes[n].at;
    return span;
}

int64_t zone_instant(const struct zone *zone, int64_t local)
{
    /* Early enough for any offset; then from span to span, so that the first one is found. */
    int64_t begin = local - OFFSET_MAX;

    for (;;) {
        struct zone_span span = zone_span(zone, begin);

        if (local - span.offset < begin)
            return begin;
        if (local - span.offset < span.until)
            return local - span.offset;
        begin = span.until;
    }
}
