/* HTML that is written once, from the top: markup is literal, everything else is escaped.
 *
 * A failed append is remembered and reported by html_end.
 */
#pragma once

#include "base/buf.h"

struct html {
    struct buf *out;
    struct error err;
    bool failed;
};

struct html html_begin(struct buf *out);
bool html_end(struct html *html, struct error *err) MUST_USE;

void html_markup(struct html *html, const char *markup); /* trusted */
void html_text(struct html *html, struct str text);      /* escaped, also for attributes */
void html_string(struct html *html, const char *text);   /* the same; NULL is nothing */
