/* A parsed JSON document, read-only. jansson.h is included by json_tree.c alone: its names
 * and ours overlap. Inside base only; others read by field tables (base/json.h).
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

enum { JSON_DEPTH_MAX = 128 };

enum tree_kind { TREE_NULL, TREE_BOOL, TREE_INTEGER, TREE_REAL, TREE_TEXT, TREE_LIST, TREE_OBJECT };

struct tree; /* a value; members are borrowed from the document */

/* One value, no duplicate keys, no NUL, valid UTF-8, bounded depth. ERR_INVALID_JSON. */
bool tree_parse(struct str text, struct tree **document, struct error *err) MUST_USE;
void tree_finish(struct tree **document); /* accepts NULL inside */

enum tree_kind tree_kind(const struct tree *value);
struct str tree_text(const struct tree *value);
bool tree_bool(const struct tree *value);

/* Also a real without a fraction, which some writers make of large integers. */
bool tree_integer(const struct tree *value, int64_t *number);
bool tree_number(const struct tree *value, double *number);

size_t tree_count(const struct tree *value); /* items of a list or object, else 0 */
const struct tree *tree_item(const struct tree *list, size_t index);
const struct tree *tree_member(const struct tree *object, const char *name); /* or NULL */

/* Members in the order written: start with *at NULL. */
bool tree_next(const struct tree *object, void **at, struct str *name, const struct tree **value);

/* Compact; with sorted keys equal values have equal text. */
bool tree_write(const struct tree *value, bool is_sorted, struct buf *out,
                struct error *err) MUST_USE;
