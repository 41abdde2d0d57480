#include "worker/redact.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/own.h"

enum { BITS_MIN = 12, BITS_MAX = 22, BUCKETS_PER_PATTERN = 16, NONE = UINT32_MAX };

struct pattern {
    size_t at; /* in the text */
    uint16_t len;
    uint32_t next; /* of the same bucket, or NONE */
};

struct redactor {
    struct secret text; /* every form of every value */
    struct pattern *patterns;
    size_t n, room;
    unsigned bits;
    uint64_t *filter;  /* one bit per bucket: most input is decided by it */
    uint32_t *buckets; /* of the first four bytes */
    bool begins[256];  /* the first bytes there are */
};

/* The forms while they are made: one block, so that growing leaves no copies behind. */
struct forms {
    struct redactor *redactor;
    char *bytes;
    size_t len;
};

static void add_pattern(struct redactor *redactor, size_t at, size_t len)
{
    if (redactor->n == redactor->room) {
        redactor->room = redactor->room ? redactor->room * 2 : 64;
        redactor->patterns =
            alloc_more(redactor->patterns, redactor->room * sizeof *redactor->patterns);
    }
    redactor->patterns[redactor->n++] = (struct pattern){at, (uint16_t)len, NONE};
}

/* The last piece ends where the whole does, and so is as long as the others. */
static void add_pieces(struct redactor *redactor, size_t at, size_t len)
{
    const size_t two = (size_t)2 * REDACT_PIECE;

    if (len < REDACT_MIN)
        return;
    for (; len > REDACT_PIECE; at += REDACT_PIECE, len -= REDACT_PIECE) {
        add_pattern(redactor, at, REDACT_PIECE);
        if (len < two) {
            at -= two - len;
            len = two;
        }
    }
    add_pattern(redactor, at, len);
}

/* What was written behind the forms is one more. */
static void keep_form(struct forms *forms, size_t skip, size_t len)
{
    if (len <= skip)
        return;
    len -= skip;
    memmove(forms->bytes + forms->len, forms->bytes + forms->len + skip, len);
    add_pieces(forms->redactor, forms->len, len);
    forms->len += len;
}

/* Characters that depend on what stands before and behind the value are left out. */
static void add_base64(struct forms *forms, struct str value, unsigned before, bool is_url)
{
    static const size_t unstable[] = {0, 2, 3};
    size_t padded_len = before + value.len;
    char *padded = forms->bytes + forms->len + base64_encoded_len(padded_len);
    char *text = forms->bytes + forms->len;

    memset(padded, 0, before);
    memcpy(padded + before, value.ptr, value.len);
    base64_encode((struct str){padded, padded_len}, text);
    for (size_t i = 0; is_url && i < base64_encoded_len(padded_len); i++) {
        if (text[i] == '+' || text[i] == '/')
            text[i] = text[i] == '+' ? '-' : '_';
    }
    keep_form(forms, unstable[before], padded_len * 8 / 6);
}

/* `extra` are characters that some encoders let pass besides the unreserved ones. */
static void add_percent(struct forms *forms, struct str value, const char *digits,
                        const char *extra)
{
    static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789-._~";
    char *text = forms->bytes + forms->len;
    size_t len = 0;

    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if (c && (strchr(unreserved, c) || strchr(extra, c))) {
            text[len++] = (char)c;
            continue;
        }
        text[len++] = '%';
        text[len++] = digits[c >> 4];
        text[len++] = digits[c & 15];
    }
    keep_form(forms, 0, len);
}

/* Programs print a key of several lines one by one, or only some of them. */
static void add_lines(struct forms *forms, struct str value, size_t at)
{
    struct str rest = value, line;

    if (!memchr(value.ptr, '\n', value.len))
        return;
    while (str_split(&rest, '\n', &line)) {
        size_t start = at + (size_t)(line.ptr - value.ptr);
        if (line.len && line.ptr[line.len - 1] == '\r')
            line.len--;
        if (line.len >= REDACT_LINE_MIN)
            add_pieces(forms->redactor, start, line.len);
    }
}

/* A file of a secret often ends in a newline that no program prints with it. */
static struct str without_end(struct str value)
{
    size_t len = value.len;

    while (len && (value.ptr[len - 1] == '\n' || value.ptr[len - 1] == '\r'))
        len--;
    return len < REDACT_MIN ? value : (struct str){value.ptr, len};
}

static void add_value(struct forms *forms, struct str value)
{
    value = without_end(value);
    if (value.len < REDACT_MIN)
        return;
    memcpy(forms->bytes + forms->len, value.ptr, value.len);
    size_t at = forms->len;
    keep_form(forms, 0, value.len);
    add_lines(forms, value, at);
    for (unsigned before = 0; before < 3; before++) {
        add_base64(forms, value, before, false);
        add_base64(forms, value, before, true);
    }
    add_percent(forms, value, "0123456789ABCDEF", "");
    add_percent(forms, value, "0123456789abcdef", "");
    add_percent(forms, value, "0123456789ABCDEF", "!*'()");
    add_percent(forms, value, "0123456789abcdef", "!*'()");
}

/* The most that all forms of a value take. While the base64 ones are made, the room of those that
 * come after them is there to work in. */
static size_t forms_room(size_t len)
{
    size_t n_percent = 4;

    return len + 6 * base64_encoded_len(len + 2) + n_percent * 3 * len + 2;
}

static uint32_t bucket_of(const struct redactor *redactor, const char *bytes)
{
    uint32_t word;

    memcpy(&word, bytes, sizeof word);
    return (word * 2654435761u) >> (32 - redactor->bits);
}

static bool is_known(const struct redactor *redactor, struct str wanted, uint32_t bucket)
{
    for (uint32_t i = redactor->buckets[bucket]; i != NONE; i = redactor->patterns[i].next) {
        if (str_equal(redactor_pattern(redactor, i), wanted))
            return true;
    }
    return false;
}

static void build_index(struct redactor *redactor)
{
    redactor->bits = BITS_MIN;
    while (redactor->bits < BITS_MAX && redactor->n * BUCKETS_PER_PATTERN >> redactor->bits)
        redactor->bits++;
    size_t n_buckets = (size_t)1 << redactor->bits;
    redactor->filter = alloc(n_buckets / 8);
    memset(redactor->filter, 0, n_buckets / 8);
    redactor->buckets = alloc(n_buckets * sizeof *redactor->buckets);
    memset(redactor->buckets, 0xff, n_buckets * sizeof *redactor->buckets);
    for (size_t i = 0; i < redactor->n; i++) {
        struct str text = redactor_pattern(redactor, i);
        uint32_t bucket = bucket_of(redactor, text.ptr);
        if (is_known(redactor, text, bucket))
            continue;
        redactor->patterns[i].next = redactor->buckets[bucket];
        redactor->buckets[bucket] = (uint32_t)i;
        redactor->filter[bucket / 64] |= (uint64_t)1 << bucket % 64;
        redactor->begins[(unsigned char)text.ptr[0]] = true;
    }
}

struct redactor *redactor_create(const struct secret *const *values, size_t n)
{
    struct redactor *redactor = alloc(sizeof *redactor);
    size_t room = 0;

    *redactor = (struct redactor){0};
    for (size_t i = 0; i < n; i++)
        room += forms_room(secret_reveal(values[i]).len);
    struct forms forms = {.redactor = redactor, .bytes = alloc(room + 1)};
    for (size_t i = 0; i < n; i++)
        add_value(&forms, secret_reveal(values[i]));
    redactor->text = secret_create((struct str){forms.bytes, forms.len});
    bytes_wipe(forms.bytes, room);
    free(forms.bytes);
    build_index(redactor);
    return redactor;
}

void redactor_destroy(struct redactor *redactor)
{
    if (!redactor)
        return;
    secret_finish(&redactor->text);
    free(redactor->patterns);
    free(redactor->filter);
    free(redactor->buckets);
    free(redactor);
}

size_t redactor_count(const struct redactor *redactor)
{
    return redactor->n;
}

struct str redactor_pattern(const struct redactor *redactor, size_t index)
{
    const struct pattern *pattern = &redactor->patterns[index];

    return (struct str){secret_reveal(&redactor->text).ptr + pattern->at, pattern->len};
}

/* Fewer bytes than any pattern has: whether one may begin with them. */
static bool may_begin(const struct redactor *redactor, struct str bytes)
{
    if (!redactor->begins[(unsigned char)bytes.ptr[0]])
        return false;
    for (size_t i = 0; i < redactor->n; i++) {
        if (memcmp(redactor_pattern(redactor, i).ptr, bytes.ptr, bytes.len) == 0)
            return true;
    }
    return false;
}

/* The longest pattern that these bytes begin with, 0 for none; false when more bytes are needed
 * to say. */
static bool match(const struct redactor *redactor, struct str bytes, bool is_last, size_t *len)
{
    *len = 0;
    if (bytes.len < REDACT_MIN)
        return is_last || !may_begin(redactor, bytes);
    uint32_t bucket = bucket_of(redactor, bytes.ptr);
    if (!(redactor->filter[bucket / 64] >> bucket % 64 & 1))
        return true;
    for (uint32_t i = redactor->buckets[bucket]; i != NONE; i = redactor->patterns[i].next) {
        struct str wanted = redactor_pattern(redactor, i);
        bool is_cut = wanted.len > bytes.len;
        if (memcmp(wanted.ptr, bytes.ptr, is_cut ? bytes.len : wanted.len) != 0)
            continue;
        if (is_cut && !is_last)
            return false;
        if (!is_cut && wanted.len > *len)
            *len = wanted.len;
    }
    return true;
}

static bool put(struct redaction *redaction, struct str bytes)
{
    if (bytes.len == 0)
        return true;
    redaction->touches = false;
    return redaction->sink(redaction->arg, bytes);
}

/* Decides positions below `limit` in order; *stop is the first that needs more bytes, or `limit`.
 */
static bool scan(struct redaction *redaction, struct str window, size_t limit, bool is_last,
                 size_t *stop)
{
    size_t clean = 0, at = 0, len;
    bool has_room = true;

    for (; at < limit; at++) {
        struct str rest = {window.ptr + at, window.len - at};
        if (!match(redaction->redactor, rest, is_last, &len))
            break;
        if (len && !redaction->n_covered) {
            has_room &= put(redaction, (struct str){window.ptr + clean, at - clean});
            if (!redaction->touches)
                has_room &= redaction->sink(redaction->arg, STR(REDACT_MARK));
            redaction->touches = true;
        }
        if (len > redaction->n_covered)
            redaction->n_covered = len;
        if (redaction->n_covered) {
            redaction->n_covered--;
            clean = at + 1;
        }
    }
    *stop = at;
    return put(redaction, (struct str){window.ptr + clean, at - clean}) && has_room;
}

void redaction_init(struct redaction *redaction, const struct redactor *redactor,
                    redaction_sink *sink, void *arg)
{
    *redaction = (struct redaction){.redactor = redactor, .sink = sink, .arg = arg};
}

static void hold(struct redaction *redaction, struct str bytes)
{
    memmove(redaction->held, bytes.ptr, bytes.len);
    redaction->n_held = bytes.len;
}

/* What was held back is decided first, with as many new bytes behind it as a pattern can have. */
static bool feed_held(struct redaction *redaction, struct str bytes, bool *is_decided)
{
    char joined[2 * REDACT_PIECE];
    size_t n_held = redaction->n_held, stop;
    size_t more = bytes.len < REDACT_PIECE ? bytes.len : REDACT_PIECE;

    memcpy(joined, redaction->held, n_held);
    memcpy(joined + n_held, bytes.ptr, more);
    bool has_room = scan(redaction, (struct str){joined, n_held + more}, n_held, false, &stop);
    *is_decided = stop == n_held;
    if (*is_decided)
        redaction->n_held = 0;
    else
        hold(redaction, (struct str){joined + stop, n_held + more - stop});
    bytes_wipe(joined, n_held + more);
    return has_room;
}

bool redaction_feed(struct redaction *redaction, struct str bytes)
{
    bool has_room = true, is_decided = true;
    size_t stop;

    if (bytes.len == 0)
        return true;
    if (!redaction->redactor || redaction->redactor->n == 0)
        return redaction->sink(redaction->arg, bytes);
    if (redaction->n_held)
        has_room = feed_held(redaction, bytes, &is_decided);
    if (!is_decided)
        return has_room;
    has_room &= scan(redaction, bytes, bytes.len, false, &stop);
    hold(redaction, (struct str){bytes.ptr + stop, bytes.len - stop});
    return has_room;
}

bool redaction_end(struct redaction *redaction)
{
    size_t stop;
    bool has_room =
        !redaction->n_held || scan(redaction, (struct str){redaction->held, redaction->n_held},
                                   redaction->n_held, true, &stop);

    bytes_wipe(redaction->held, sizeof redaction->held);
    redaction->n_held = redaction->n_covered = 0;
    redaction->touches = false;
    return has_room;
}

struct collector {
    struct buf *out;
    struct error *err;
};

static bool collect(void *arg, struct str bytes)
{
    struct collector *collector = arg;

    return buf_append(collector->out, bytes, collector->err);
}

bool redact_text(const struct redactor *redactor, struct str text, struct buf *out,
                 struct error *err)
{
    struct collector collector = {out, err};
    struct redaction redaction;

    redaction_init(&redaction, redactor, collect, &collector);
    bool is_whole = redaction_feed(&redaction, text);
    return redaction_end(&redaction) && is_whole;
}
