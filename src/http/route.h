/* Routes: a table of (method, pattern, permission, handler) rows, and its matcher.
 *
 * In a pattern `:name` stands for one non-empty segment, and a `*` at its end for whatever follows.
 * A handler runs only after the
 * caller has been shown to hold the row's permission.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "base/str.h"
#include "http/request.h"

enum { ROUTE_PARAMS_MAX = 6 };

struct call;
struct response;

/* Ordinary blocking C on a pool thread. False with err filled becomes the JSON error answer. */
typedef bool route_handler(struct call *call, struct response *res, struct error *err);

struct route {
    enum http_method method;
    const char *pattern;
    int needs; /* a permission of the product, where 0 means forgotten */
    route_handler *handle;
    size_t body_max; /* bytes of body; 0: the server's default for JSON */
    int too_large;   /* the error code of a body over that; 0: ERR_TOO_LARGE */
    bool upload;     /* the body is spooled to an unlinked file instead of memory */
    bool scoped;     /* also reachable below /api/projects/:project/environments/:environment */
    bool instant; /* runs on the loop itself, without authorize: only for public, never blocking */
};

struct route_match {
    const struct route *route;
    struct str params[ROUTE_PARAMS_MAX]; /* in the order the pattern names them */
    size_t n_params;
    struct str project, environment; /* of a scoped path, else empty */
    unsigned allowed;                /* with ERR_METHOD: 1 << method for each that is served */
};

/* HEAD is served by the row of GET. ERR_NOT_FOUND when no pattern fits; ERR_METHOD when only the
 * method is wrong. */
bool route_find(const struct route *table, size_t n, enum http_method method, struct str path,
                struct route_match *match, struct error *err) MUST_USE;
