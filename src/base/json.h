/* JSON: read by tables of fields, written by a streaming writer.
 *
 * Reading is strict: one value, no duplicate keys, no unknown fields, bounded depth,
 * every text bounded and free of NUL. Errors name the path: "/options/ttl must be text".
 * Decoded text lives in the arena given.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

enum json_kind {
    JSON_TEXT,    /* struct str */
    JSON_INTEGER, /* int64_t, between .min and .max */
    JSON_NUMBER,  /* double, between .min and .max as JSON_INTEGER */
    JSON_BOOL,    /* bool */
    JSON_RAW,     /* struct str: any value as compact JSON text, at most .max bytes */
    JSON_OBJ,     /* a nested struct at the offset, by .fields */
    JSON_LIST,    /* struct json_list of .item structs (.fields) or of texts (.fields NULL) */
    JSON_MAP,     /* struct json_map: an object of texts, or (.is_raw) of any values */
};

struct json_list {
    void *items; /* an array of .size structs, or of struct str */
    size_t n;
};

struct json_pair {
    struct str name, value;
};

struct json_map {
    struct json_pair *pairs;
    size_t n;
};

enum json_need { OPTIONAL, REQUIRED };

struct json_field {
    const char *name;
    enum json_kind kind;
    size_t offset;
    enum json_need need;
    int64_t max; /* bytes of text (0: 64 KiB) or raw (0: 1 MiB), items of a list or map
                  * (0: 1024), or the largest integer (with min also 0: any) */
    int64_t min;
    const struct json_field *fields; /* of an object or of list items, ended by {0} */
    size_t size;                     /* of one list item struct */
    size_t present; /* offset of a bool set when the field was there, or 0 for none */
    bool is_raw;    /* a map's values are any, each as compact JSON text */
};

/* Fills *into, zeroed first. null for an optional field counts as absent (not for JSON_RAW,
 * where it is the value null). `fields` ends with {0}. ERR_INVALID_JSON, ERR_UNKNOWN_FIELD or
 * ERR_INVALID. */
bool json_read(struct str text, const struct json_field *fields, void *into, size_t size,
               struct arena *arena, struct error *err) MUST_USE;

/* For clients: the same, but unknown fields are skipped (a newer peer may send more). */
bool json_read_loose(struct str text, const struct json_field *fields, void *into, size_t size,
                     struct arena *arena, struct error *err) MUST_USE;

/* One JSON value checked and rewritten compactly with sorted keys, so that equal values have
 * equal text. */
bool json_canonical(struct str text, size_t max, struct buf *out, struct error *err) MUST_USE;

/* A loose look into any document: "run.error.message", "events.0.kind". False when absent or not
 * of that kind. `raw` gives any value as compact JSON. For clients and tests. */
bool json_find_text(struct str text, const char *path, struct arena *arena, struct str *value);
bool json_find_int(struct str text, const char *path, int64_t *value);
bool json_find_raw(struct str text, const char *path, struct arena *arena, struct str *value);
size_t json_count(struct str text, const char *path); /* items of a list or object, else 0 */

/* The writer puts commas and quotes; the caller opens and closes. A failed append (buffer over
 * its maximum) is remembered and reported once by json_end. `name` NULL inside lists and at the
 * top. */
struct json_writer {
    struct buf *out;
    struct error err;
    bool failed, comma;
};

struct json_writer json_begin(struct buf *out);
bool json_end(struct json_writer *writer, struct error *err) MUST_USE;

void json_open(struct json_writer *writer, const char *name); /* { */
void json_close(struct json_writer *writer);                  /* } */
void json_open_list(struct json_writer *writer, const char *name);
void json_close_list(struct json_writer *writer);
void json_text(struct json_writer *writer, const char *name, struct str value);
void json_string(struct json_writer *writer, const char *name, const char *value); /* NULL: null */
void json_int(struct json_writer *writer, const char *name, int64_t value);
void json_bool(struct json_writer *writer, const char *name, bool value);
void json_null(struct json_writer *writer, const char *name);
void json_raw(struct json_writer *writer, const char *name, struct str value); /* trusted JSON */
void json_time(struct json_writer *writer, const char *name, int64_t ms);      /* RFC 3339 */
void json_base64(struct json_writer *writer, const char *name, struct str bytes);
