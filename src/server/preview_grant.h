/* Who may see which port in a browser: links that open once, and the cookies they become.
 *
 * They are kept in this process, by the hash of their token, and end with it. All of it may be
 * called from any thread.
 */
#pragma once

#include "server/caller.h"
#include "server/keys.h"
#include "server/ports.h"

enum {
    PREVIEW_LINK_MS = 60 * 1000,
    PREVIEW_COOKIE_MS = 60 * 60 * 1000,
    PREVIEWS_OF_CALLER_MAX = 64, /* the oldest makes room */
};

struct previews;

struct preview_grant {
    struct port_place place;
    struct caller_hold hold; /* whoever asked for the link */
};

struct previews *previews_create(void);
void previews_destroy(struct previews *previews); /* accepts NULL */

/* Times are of the boot clock. ERR_QUOTA when there are too many of all callers. */
bool preview_link(struct previews *previews, const struct preview_grant *grant, int64_t now_ms,
                  char token[TOKEN_TEXT], struct error *err) MUST_USE;

/* A link becomes a cookie, and is none any more, whatever comes of it: false when it is for another
 * workspace or port, or over. */
bool preview_open(struct previews *previews, struct str token, struct str workspace, uint16_t port,
                  int64_t now_ms, char cookie[TOKEN_TEXT]);

bool preview_find(struct previews *previews, struct str cookie, struct str workspace, uint16_t port,
                  int64_t now_ms, struct preview_grant *grant);
