/* Between equals: who has a run's template, checkpoint or drive ready gets that run. It changes
 * nothing in the order of what is not equal. */
#include "server/worker_plane.h"
#include "store/queries.h"

_Static_assert((int)CLAIM_EQUALS_ID == (int)CLAIM_NEXT_ID &&
                   (int)CLAIM_EQUALS_KIND == (int)CLAIM_NEXT_KIND &&
                   (int)CLAIM_EQUALS_SUBJECT_ID == (int)CLAIM_NEXT_SUBJECT_ID &&
                   (int)CLAIM_EQUALS_LANE_ID == (int)CLAIM_NEXT_LANE_ID &&
                   (int)CLAIM_EQUALS_ENVIRONMENT_ID == (int)CLAIM_NEXT_ENVIRONMENT_ID &&
                   (int)CLAIM_EQUALS_TTL_MS == (int)CLAIM_NEXT_TTL_MS,
               "a row of either can be claimed");

static bool has(const struct json_list *names, struct str name)
{
    for (size_t i = 0; name.len > 0 && i < names->n; i++)
        if (str_equal(((const struct str *)names->items)[i], name))
            return true;
    return false;
}

/* The smaller, the more of its start is done. */
enum warmth { WARM_TEMPLATE, WARM_CHECKPOINT, WARM_DRIVE, WARM_NOT };

static enum warmth warmth_of(const struct wire_warm *warm, const struct rows *rows, size_t at)
{
    return has(&warm->templates, row_str(rows, at, CLAIM_EQUALS_BUNDLE)) ? WARM_TEMPLATE
           : has(&warm->checkpoints, row_str(rows, at, CLAIM_EQUALS_CHECKPOINT_ID))
               ? WARM_CHECKPOINT
           : has(&warm->drives, row_str(rows, at, CLAIM_EQUALS_IMAGE)) ? WARM_DRIVE
                                                                       : WARM_NOT;
}

static bool is_equal(const struct rows *items, size_t at)
{
    return row_int(items, at, CLAIM_NEXT_LIVE) == row_int(items, 0, CLAIM_NEXT_LIVE) &&
           row_int(items, at, CLAIM_NEXT_SCORE_MS) == row_int(items, 0, CLAIM_NEXT_SCORE_MS);
}

bool dispatch_prefer_warm(struct claim *claim, struct tx *tx, struct rows *item, struct error *err)
{
    const struct wire_warm *warm = claim->warm;
    struct rows found = *item;
    enum warmth best = WARM_NOT;

    if (warm->templates.n + warm->checkpoints.n + warm->drives.n == 0)
        return true;
    for (size_t i = 0; i < item->n_rows && is_equal(item, i); i++) {
        struct rows rows;

        if (!STORE(tx, &claim_equals, claim->arena, &rows, err,
                   *row_value(item, i, CLAIM_NEXT_SHAPE_ID),
                   *row_value(item, i, CLAIM_NEXT_SCORE_MS)))
            return false;
        for (size_t k = 0; k < rows.n_rows; k++) {
            enum warmth warmth = warmth_of(warm, &rows, k);

            if (warmth >= best)
                continue;
            best = warmth;
            found = rows;
            found.values = row_value(&rows, k, 0);
            found.n_rows = 1;
        }
    }
    *item = found;
    return true;
}
