/* One page of a list: the limit, where it starts, and the opaque cursor of the next.
 *
 * A cursor is the last id and a tag over it, the list and its filters, so it works for the
 * list it was made for and no other.
 */
#pragma once

#include "base/id.h"
#include "base/json.h"
#include "http/call.h"

enum { PAGE_DEFAULT = 100, PAGE_MAX = 200 };

struct page {
    int64_t limit;
    char at[ID_TEXT]; /* the id before (or, oldest first, after) which the page begins */
    char list[256];   /* what the tag is bound to */
    bool is_ascending;
};

/* Reads ?limit and ?cursor. `list` names the list, `filter` what narrows it (may be empty). */
bool page_begin(struct call *call, const char *list, struct str filter, bool is_ascending,
                struct page *page, struct error *err) MUST_USE;

/* The same with another limit for those who name none. */
bool page_begin_with(struct call *call, const char *list, struct str filter, bool is_ascending,
                     int64_t otherwise, struct page *page, struct error *err) MUST_USE;

/* Rows to ask for: one more than the limit, to know whether there are more. */
static inline int64_t page_rows(const struct page *page)
{
    return page->limit + 1;
}

/* Writes next_cursor for the last id that was shown. */
void page_next(const struct call *call, const struct page *page, struct str last_id,
               struct json_writer *json);

/* A position in a history: ?cursor or Last-Event-ID as a number; 0 when there is none. */
bool history_cursor(struct call *call, int64_t *cursor, struct error *err) MUST_USE;

/* Whether the client asked for server-sent events. */
bool call_wants_events(const struct call *call);

/* The body by its field table; an empty one counts as {}. */
bool call_body(struct call *call, const struct json_field *fields, void *into, size_t size,
               struct error *err) MUST_USE;

/* An id in the path: malformed is not found. */
bool call_id(const struct call *call, size_t index, char id[ID_TEXT], struct error *err) MUST_USE;

/* What may be an id or a name: an id is lower-cased, a name stays as it is. */
struct str id_or_name(struct arena *arena, struct str text);

/* An id in the query; *id is empty when there is none, malformed is ERR_INVALID. */
bool call_query_id(struct call *call, const char *name, char id[ID_TEXT],
                   struct error *err) MUST_USE;
