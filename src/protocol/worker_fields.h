/* The kinds of member of a message between server and worker, so that a row of its table is a
 * line. AT names the struct under way. */
#pragma once

#include <limits.h>

#include "protocol/worker_api.h"

#define TEXT(name, member, need_, max_) \
    {name, JSON_TEXT, offsetof(struct AT, member), need_, .max = (max_)}
#define NUMBER(name, member, need_) \
    {name, JSON_INTEGER, offsetof(struct AT, member), need_, .max = INT64_MAX}
#define FLAG(name, member, need_) {name, JSON_BOOL, offsetof(struct AT, member), need_}
#define RAW(name, member, need_) \
    {name, JSON_RAW, offsetof(struct AT, member), need_, .max = WIRE_JSON_MAX}
#define PART(name, member, need_, fields_) \
    {name, JSON_OBJ, offsetof(struct AT, member), need_, .fields = (fields_)}
#define TEXTS(name, member, need_, n) \
    {name, JSON_LIST, offsetof(struct AT, member), need_, .max = (n)}
#define LIST(name, member, need_, n, fields_, item)                       \
    {name,       JSON_LIST,           offsetof(struct AT, member), need_, \
     .max = (n), .fields = (fields_), .size = sizeof(struct item)}
#define PAIRS(name, member, need_, n) \
    {name, JSON_MAP, offsetof(struct AT, member), need_, .max = (n)}
#define ID(name, member, need_) TEXT(name, member, need_, WIRE_ID_MAX)

enum { LEASES_MAX = 1024, WARM_MAX = 64, SECRET_MAX = 128, DIGEST_MAX = 80, NAME_MAX_LEN = 512 };

extern const struct json_field wire_object_fields[], wire_fence_fields[], wire_version_fields[];

#define FENCE PART("fence", fence, REQUIRED, wire_fence_fields)

#define VERSION(parent)                \
    {"version",                        \
     JSON_OBJ,                         \
     offsetof(struct parent, version), \
     OPTIONAL,                         \
     .fields = wire_version_fields,    \
     .present = offsetof(struct parent, has_version)}
