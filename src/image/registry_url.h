/* Addresses of registries, mirrors, token services and redirects.
 *
 * An address that was read is safe to ask: https, or http to this machine; no user, no fragment.
 */
#pragma once

#include "base/error.h"

enum { URL_ORIGIN = 320, URL_PATH = 8192 };

struct registry_url {
    char origin[URL_ORIGIN]; /* https://host or https://host:port */
    char host[256];          /* without the port */
    char path[URL_PATH];     /* with the query; at least "/" */
    bool is_loopback;
};

/* `base` may be NULL; else a relative address is completed from it. ERR_INVALID. */
bool registry_url_read(const char *text, const struct registry_url *base, struct registry_url *url,
                       struct error *err) MUST_USE;

/* Whether two hosts belong to one owner: they are equal, or below one registrable domain. */
bool registry_hosts_are_related(const char *one, const char *other);
