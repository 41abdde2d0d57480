/* Walks JSON text that is known to be valid, piece by piece, without building a tree: pieces are
 * slices of the text itself, so that a list of thousands is read once.
 */
#pragma once

#include "base/str.h"

/* Start with *rest as the whole list, with its brackets. False at the end. */
bool scan_item(struct str *rest, struct str *item);

/* The same over an object; the key is given with its quotes. */
bool scan_member(struct str *rest, struct str *key, struct str *value);
