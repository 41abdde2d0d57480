/* Text as a terminal shows it: one character at a time, with the columns it takes and whether it
 * may be shown at all.
 */
#pragma once

#include "base/str.h"

struct glyph {
    struct str bytes; /* one byte when it is not UTF-8 */
    size_t columns;   /* two for the wide letters of East Asia and pictographs, none for marks */
    bool is_harmful;  /* a control, a mark that turns the direction of text, or not UTF-8 */
};

/* Cuts the first character off *rest; false when nothing is left. */
bool glyph_next(struct str *rest, struct glyph *glyph);

/* The columns of a whole text. */
size_t glyph_width(struct str text);

/* As much of the front as fits into so many columns. */
struct str glyph_cut(struct str text, size_t columns);
