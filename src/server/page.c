#include "server/page.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/id.h"
#include "base/secret.h"
#include "server/caller.h"
#include "server/context.h"

enum { CURSOR_TAG = 12, CURSOR_ID = ID_BYTES, CURSOR_BYTES = CURSOR_ID + CURSOR_TAG };

static void cursor_tag(const struct call *call, const struct page *page, struct str id,
                       uint8_t tag[BLAKE2B_LEN])
{
    struct str pieces[] = {str_of(page->list), id};
    keys_tag(&server_of(call)->keys, KEY_CURSOR, pieces, COUNT_OF(pieces), tag);
}

/* The 16 bytes of a hyphenated id. */
static bool id_bytes(struct str id, uint8_t bytes[CURSOR_ID])
{
    char hex[2 * CURSOR_ID];
    size_t n = 0;
    for (size_t i = 0; i < id.len && n < sizeof hex; i++)
        if (id.ptr[i] != '-')
            hex[n++] = id.ptr[i];
    return n == sizeof hex && hex_decode((struct str){hex, n}, bytes, CURSOR_ID);
}

static bool read_cursor(const struct call *call, struct page *page, struct str text,
                        struct error *err)
{
    uint8_t bytes[CURSOR_BYTES];
    size_t len = sizeof bytes;
    if (!base64url_decode(text, bytes, &len) || len != sizeof bytes)
        return error_set(err, ERR_INVALID_CURSOR, "the cursor is not one of this list");

    id_from_bytes(bytes, page->at);
    const struct str pieces[] = {str_of(page->list), str_of(page->at)};
    struct str tag = {(const char *)bytes + CURSOR_ID, CURSOR_TAG};
    if (!keys_tag_is_ours(&server_of(call)->keys, KEY_CURSOR, pieces, COUNT_OF(pieces), tag))
        return error_set(err, ERR_INVALID_CURSOR, "the cursor is not one of this list");
    return true;
}

bool page_begin(struct call *call, const char *list, struct str filter, bool is_ascending,
                struct page *page, struct error *err)
{
    return page_begin_with(call, list, filter, is_ascending, PAGE_DEFAULT, page, err);
}

bool page_begin_with(struct call *call, const char *list, struct str filter, bool is_ascending,
                     int64_t otherwise, struct page *page, struct error *err)
{
    *page = (struct page){.is_ascending = is_ascending};
    snprintf(page->at, sizeof page->at, "%s", is_ascending ? "" : "~");

    /* Filters may be long; what the tag is bound to is their hash. */
    struct blake2b state;
    uint8_t hash[BLAKE2B_LEN];
    char hex[2 * BLAKE2B_LEN + 1];
    blake2b_init(&state, (struct str){0});
    blake2b_update(&state, filter);
    blake2b_final(&state, hash);
    hex_encode((struct str){(const char *)hash, sizeof hash}, hex);
    const struct caller *caller = caller_of(call);
    snprintf(page->list, sizeof page->list, "%s %s %s", list,
             caller ? caller->scope.environment_id : "", hex);

    struct str cursor;
    bool found = false;
    if (!call_query_int(call, "limit", 1, PAGE_MAX, otherwise, &page->limit, err) ||
        !call_query(call, "cursor", &cursor, &found, err))
        return false;
    return !found || read_cursor(call, page, cursor, err);
}

void page_next(const struct call *call, const struct page *page, struct str last_id,
               struct json_writer *json)
{
    uint8_t bytes[CURSOR_BYTES], tag[BLAKE2B_LEN];
    if (!id_bytes(last_id, bytes))
        return;
    cursor_tag(call, page, last_id, tag);
    memcpy(bytes + CURSOR_ID, tag, CURSOR_TAG);
    char text[(4 * CURSOR_BYTES + 2) / 3 + 1];
    base64url_encode((struct str){(const char *)bytes, sizeof bytes}, text);
    json_string(json, "next_cursor", text);
}

static bool parse_position(struct str text, int64_t *value)
{
    if (text.len == 0 || text.len > 18)
        return false;
    int64_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        number = number * 10 + (text.ptr[i] - '0');
    }
    *value = number;
    return true;
}

bool history_cursor(struct call *call, int64_t *cursor, struct error *err)
{
    *cursor = 0;
    struct str text = call_header(call, STR("last-event-id"));
    bool found = text.ptr != NULL && text.len > 0;
    if (!found && !call_query(call, "cursor", &text, &found, err))
        return false;
    if (found && !parse_position(text, cursor))
        return error_set(err, ERR_INVALID_CURSOR, "the cursor is not one of this history");
    return true;
}

bool call_wants_events(const struct call *call)
{
    static const struct str type = STR("text/event-stream");
    struct str accept = call_header(call, STR("accept"));
    for (size_t i = 0; i + type.len <= accept.len; i++)
        if (strncasecmp(accept.ptr + i, type.ptr, type.len) == 0)
            return true;
    return false;
}

bool call_body(struct call *call, const struct json_field *fields, void *into, size_t size,
               struct error *err)
{
    struct str body = call->request->body;
    if (body.len == 0)
        body = STR("{}");
    return json_read(body, fields, into, size, call->arena, err);
}

bool call_id(const struct call *call, size_t index, char id[ID_TEXT], struct error *err)
{
    return id_parse(call_param(call, index), id) ||
           error_set(err, ERR_NOT_FOUND, "there is nothing of that id");
}

struct str id_or_name(struct arena *arena, struct str text)
{
    char id[ID_TEXT];
    return text.ptr && id_parse(text, id) ? arena_str(arena, str_of(id)) : text;
}

bool call_query_id(struct call *call, const char *name, char id[ID_TEXT], struct error *err)
{
    struct str text;
    bool found = false;
    id[0] = '\0';
    if (!call_query(call, name, &text, &found, err))
        return false;
    return !found || id_parse(text, id) || error_set(err, ERR_INVALID, "%s must be an id", name);
}
