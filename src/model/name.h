/* The names people and programs choose, each kind with its alphabet and its length. */
#pragma once

#include "base/error.h"
#include "base/str.h"

enum name_kind {
    NAME_ID, /* task, sandbox, image, cache; schedule deduplication key */
    NAME_QUEUE,
    NAME_STREAM,
    NAME_SECRET,
    NAME_VARIABLE, /* of a process's environment; not LD_*, not HELMR_* */
    NAME_SLUG,     /* project, environment */
    NAME_EXTERNAL, /* external id, idempotency key, concurrency key, correlation id */
    NAME_TAG,
    NAME_TITLE, /* what people read: 1 to 200 bytes */
    NAME_COLOUR,
    NAME_KIND_COUNT,
};

enum { SLUG_TEXT = 49, COLOUR_TEXT = 8 };

bool name_is_valid(enum name_kind kind, struct str text);

/* ERR_INVALID "<what> must be …" with the rule. */
bool name_check(enum name_kind kind, const char *what, struct str text, struct error *err) MUST_USE;

/* The slug of a title: lower case, hyphens, cut at 48. False when nothing is left of it. */
bool name_slugify(struct str title, char slug[SLUG_TEXT]);

/* A colour that always belongs to this slug. */
void name_colour(struct str slug, char colour[COLOUR_TEXT]);
