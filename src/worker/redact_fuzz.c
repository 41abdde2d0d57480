/* Any secrets and any output, cut anywhere: the result is what a search by hand through the whole
 * finds, and no byte of a match is in it. */
#include <assert.h>
#include <stdint.h>

#include "base/own.h"
#include "worker/redact.h"

enum { VALUES_MAX = 4, TEXT_MAX = 4096, OUT_MAX = 16 * TEXT_MAX };

static struct str take(struct str *input, size_t len)
{
    struct str piece = {input->ptr, len < input->len ? len : input->len};

    *input = (struct str){input->ptr + piece.len, input->len - piece.len};
    return piece;
}

static size_t take_number(struct str *input)
{
    struct str one = take(input, 1);

    return one.len ? (unsigned char)one.ptr[0] : 0;
}

static bool collect(void *arg, struct str bytes)
{
    struct error err;

    return buf_append(arg, bytes, &err);
}

static void search_by_hand(const struct redactor *redactor, struct str text, struct buf *out)
{
    static bool is_covered[TEXT_MAX];
    bool was_covered = false;

    memset(is_covered, 0, sizeof is_covered);
    for (size_t at = 0; at < text.len; at++) {
        for (size_t i = 0; i < redactor_count(redactor); i++) {
            struct str wanted = redactor_pattern(redactor, i);
            if (wanted.len <= text.len - at && memcmp(wanted.ptr, text.ptr + at, wanted.len) == 0)
                memset(is_covered + at, true, wanted.len);
        }
    }
    for (size_t at = 0; at < text.len; at++) {
        if (!is_covered[at])
            assert(collect(out, (struct str){text.ptr + at, 1}));
        else if (!was_covered)
            assert(collect(out, STR(REDACT_MARK)));
        was_covered = is_covered[at];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(buf_finish) struct buf cut = {.max = OUT_MAX}, by_hand = {.max = OUT_MAX};
    struct str input = {(const char *)data, size};
    struct secret secrets[VALUES_MAX];
    const struct secret *values[VALUES_MAX];
    struct redaction redaction;

    size_t n = take_number(&input) % (VALUES_MAX + 1), step = take_number(&input) + 1;
    for (size_t i = 0; i < n; i++) {
        size_t len = take_number(&input) * (i ? 1 : 3);
        secrets[i] = secret_create(take(&input, len));
        values[i] = &secrets[i];
    }
    struct redactor *redactor = redactor_create(values, n);
    struct str text = take(&input, TEXT_MAX);

    search_by_hand(redactor, text, &by_hand);
    redaction_init(&redaction, redactor, collect, &cut);
    for (struct str rest = text; rest.len;) {
        struct str piece = take(&rest, step);
        assert(redaction_feed(&redaction, piece));
        step = step % 251 + 1;
    }
    assert(redaction_end(&redaction));
    assert(str_equal(buf_str(&cut), buf_str(&by_hand)));

    redactor_destroy(redactor);
    for (size_t i = 0; i < n; i++)
        secret_finish(&secrets[i]);
    return 0;
}
