#include "base/text_diff.h"

#include <stdint.h>
#include <stdio.h>

#include "base/own.h"

/* COST_MAX: edits from either end before a stretch is called replaced. */
enum { COST_MAX = 512, DIAGONALS = 2 * COST_MAX + 3, DIAGONAL_ZERO = COST_MAX + 1 };

struct line {
    struct str text; /* with its line end, if it has one */
    uint32_t hash;
};

struct side {
    struct line *lines;
    bool *is_changed;
    int n;
};

/* A stretch of lines on both sides. */
struct box {
    int a_from, a_to, b_from, b_to;
};

struct comparison {
    struct side a, b;
    struct box *boxes; /* still to be compared */
    size_t n_boxes, room;
    int forward[DIAGONALS],
        backward[DIAGONALS]; /* how far each diagonal has come; -1: not at all */
};

bool text_diff_takes(struct str text)
{
    return text.len <= TEXT_DIFF_MAX && (text.len == 0 || !memchr(text.ptr, '\0', text.len));
}

static uint32_t hash_of(struct str text)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (uint8_t)text.ptr[i]) * 16777619u;
    return hash;
}

static void split(struct str text, struct side *side)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++)
        n += text.ptr[i] == '\n';
    side->lines = alloc((n + 1) * sizeof *side->lines);
    side->is_changed = alloc(n + 1);
    memset(side->is_changed, 0, n + 1);
    side->n = 0;
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) + 1 : text.len;
        struct str line = {text.ptr, len};

        side->lines[side->n++] = (struct line){line, hash_of(line)};
        text = (struct str){text.ptr + len, text.len - len};
    }
}

static bool are_equal(const struct comparison *all, int a, int b)
{
    const struct line *x = &all->a.lines[a], *y = &all->b.lines[b];

    return x->hash == y->hash && str_equal(x->text, y->text);
}

/* Equal lines at both ends are no part of any difference. */
static void trim(const struct comparison *all, struct box *box)
{
    while (box->a_from < box->a_to && box->b_from < box->b_to &&
           are_equal(all, box->a_from, box->b_from)) {
        box->a_from++;
        box->b_from++;
    }
    while (box->a_from < box->a_to && box->b_from < box->b_to &&
           are_equal(all, box->a_to - 1, box->b_to - 1)) {
        box->a_to--;
        box->b_to--;
    }
}

/* One more edit on a diagonal: from the left one line of a, from the right one of b, whichever
 * comes further inside the box. */
static int step(const int *reach, int k, int cost, int n, int m)
{
    int left = reach[k - 1 + DIAGONAL_ZERO], right = reach[k + 1 + DIAGONAL_ZERO], best = -1;

    if (cost == 0)
        return 0;
    if (left >= 0 && left + 1 <= n)
        best = left + 1;
    if (right > best && right - k <= m)
        best = right;
    return best;
}

static int run_forward(const struct comparison *all, const struct box *box, int x, int k)
{
    while (box->a_from + x < box->a_to && box->b_from + x - k < box->b_to &&
           are_equal(all, box->a_from + x, box->b_from + x - k))
        x++;
    return x;
}

static int run_backward(const struct comparison *all, const struct box *box, int x, int k)
{
    while (box->a_to - x > box->a_from && box->b_to - (x - k) > box->b_from &&
           are_equal(all, box->a_to - x - 1, box->b_to - (x - k) - 1))
        x++;
    return x;
}

/* Whether a way from one end has met the ways that came from the other. */
static bool has_met(const int *other, int k, int delta, int cost, int x, int n)
{
    int there = delta - k;

    if (there < -cost || there > cost || other[there + DIAGONAL_ZERO] < 0)
        return false;
    return x + other[there + DIAGONAL_ZERO] >= n;
}

/* A point of the shortest way through a trimmed box, from both ends at once. False when it is too
 * far to look for. */
static bool find_middle(struct comparison *all, const struct box *box, int *a, int *b)
{
    int n = box->a_to - box->a_from, m = box->b_to - box->b_from, delta = n - m;
    int most = (n + m + 1) / 2 < COST_MAX ? (n + m + 1) / 2 : COST_MAX;

    for (int i = DIAGONAL_ZERO - most - 1; i <= DIAGONAL_ZERO + most + 1; i++)
        all->forward[i] = all->backward[i] = -1;
    for (int cost = 0; cost <= most; cost++) {
        for (int k = -cost; k <= cost; k += 2) {
            int x = step(all->forward, k, cost, n, m);
            if (x < 0)
                continue;
            all->forward[k + DIAGONAL_ZERO] = x = run_forward(all, box, x, k);
            if (delta % 2 != 0 && has_met(all->backward, k, delta, cost - 1, x, n)) {
                *a = box->a_from + x;
                *b = box->b_from + x - k;
                return true;
            }
        }
        for (int k = -cost; k <= cost; k += 2) {
            int x = step(all->backward, k, cost, n, m);
            if (x < 0)
                continue;
            all->backward[k + DIAGONAL_ZERO] = x = run_backward(all, box, x, k);
            if (delta % 2 == 0 && has_met(all->forward, k, delta, cost, x, n)) {
                *a = box->a_to - x;
                *b = box->b_to - (x - k);
                return true;
            }
        }
    }
    return false;
}

static void push(struct comparison *all, struct box box)
{
    if (all->n_boxes == all->room) {
        all->room = all->room ? 2 * all->room : 64;
        all->boxes = alloc_more(all->boxes, all->room * sizeof *all->boxes);
    }
    all->boxes[all->n_boxes++] = box;
}

static void mark(struct comparison *all, const struct box *box)
{
    for (int i = box->a_from; i < box->a_to; i++)
        all->a.is_changed[i] = true;
    for (int i = box->b_from; i < box->b_to; i++)
        all->b.is_changed[i] = true;
}

static void compare(struct comparison *all)
{
    push(all, (struct box){0, all->a.n, 0, all->b.n});
    while (all->n_boxes > 0) {
        struct box box = all->boxes[--all->n_boxes];
        int a, b;

        trim(all, &box);
        if (box.a_from == box.a_to || box.b_from == box.b_to || !find_middle(all, &box, &a, &b)) {
            mark(all, &box);
            continue;
        }
        push(all, (struct box){a, box.a_to, b, box.b_to});
        push(all, (struct box){box.a_from, a, box.b_from, b});
    }
}

static bool put_line(struct buf *out, char sign, struct str text, struct error *err)
{
    bool is_ended = text.len > 0 && text.ptr[text.len - 1] == '\n';

    return buf_append(out, (struct str){&sign, 1}, err) && buf_append(out, text, err) &&
           (is_ended || buf_append(out, STR("\n\\ No newline at end of file\n"), err));
}

/* A side without lines begins before the first. */
static bool put_head(struct buf *out, const struct box *hunk, struct error *err)
{
    char text[96];
    int n_a = hunk->a_to - hunk->a_from, n_b = hunk->b_to - hunk->b_from;
    int len = snprintf(text, sizeof text, "@@ -%d,%d +%d,%d @@\n", hunk->a_from + (n_a > 0), n_a,
                       hunk->b_from + (n_b > 0), n_b);

    return buf_append(out, (struct str){text, (size_t)len}, err);
}

static bool put_hunk(const struct comparison *all, const struct box *hunk, struct buf *out,
                     struct error *err)
{
    int a = hunk->a_from, b = hunk->b_from;

    if (!put_head(out, hunk, err))
        return false;
    while (a < hunk->a_to || b < hunk->b_to) {
        bool fine;

        if (a < hunk->a_to && all->a.is_changed[a])
            fine = put_line(out, '-', all->a.lines[a++].text, err);
        else if (b < hunk->b_to && all->b.is_changed[b])
            fine = put_line(out, '+', all->b.lines[b++].text, err);
        else {
            fine = put_line(out, ' ', all->a.lines[a].text, err);
            a++;
            b++;
        }
        if (!fine)
            return false;
    }
    return true;
}

/* Past the changed lines at (a, b). */
static void skip_changes(const struct comparison *all, int *a, int *b)
{
    while (*a < all->a.n && all->a.is_changed[*a])
        ++*a;
    while (*b < all->b.n && all->b.is_changed[*b])
        ++*b;
}

static int lesser(int x, int y)
{
    return x < y ? x : y;
}

/* From the change at (a, b) to the last one that is near enough to share its context. */
static struct box hunk_at(const struct comparison *all, int *a, int *b)
{
    int before = lesser(TEXT_DIFF_CONTEXT, lesser(*a, *b));
    struct box hunk = {*a - before, 0, *b - before, 0};

    for (;;) {
        int equal = 0;

        skip_changes(all, a, b);
        while (equal <= 2 * TEXT_DIFF_CONTEXT && *a + equal < all->a.n && *b + equal < all->b.n &&
               !all->a.is_changed[*a + equal] && !all->b.is_changed[*b + equal])
            equal++;
        bool is_last =
            equal > 2 * TEXT_DIFF_CONTEXT || (*a + equal == all->a.n && *b + equal == all->b.n);
        if (is_last) {
            int after = lesser(TEXT_DIFF_CONTEXT, equal);
            hunk.a_to = *a + after;
            hunk.b_to = *b + after;
            *a += equal;
            *b += equal;
            return hunk;
        }
        *a += equal;
        *b += equal;
    }
}

static bool put_all(const struct comparison *all, struct buf *out, struct error *err)
{
    int a = 0, b = 0;

    while (a < all->a.n || b < all->b.n) {
        bool is_equal =
            a < all->a.n && b < all->b.n && !all->a.is_changed[a] && !all->b.is_changed[b];
        if (is_equal) {
            a++;
            b++;
            continue;
        }
        struct box hunk = hunk_at(all, &a, &b);
        if (!put_hunk(all, &hunk, out, err))
            return false;
    }
    return true;
}

static void finish(struct comparison **slot)
{
    struct comparison *all = *slot;

    free(all->a.lines);
    free(all->a.is_changed);
    free(all->b.lines);
    free(all->b.is_changed);
    free(all->boxes);
    free(all);
}

bool text_diff(struct str before, struct str after, struct buf *out, struct error *err)
{
    if (!text_diff_takes(before) || !text_diff_takes(after))
        return error_set(err, ERR_TOO_LARGE, "only texts of at most %d bytes are compared",
                         TEXT_DIFF_MAX);
    AUTO(finish) struct comparison *all = alloc(sizeof *all);
    *all = (struct comparison){0};
    split(before, &all->a);
    split(after, &all->b);
    compare(all);
    return put_all(all, out, err);
}
