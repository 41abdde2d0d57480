/* Certificate authorities an operator added to this host, for images made here.
 *
 * Where a network signs for others, the host trusts authorities that no distribution ships; an
 * image made on it must trust them too, or nothing in it can fetch a package.
 */
#pragma once

#include "base/buf.h"
#include "image/image.h"

/* Appends every certificate of the bundle, as PEM, that is in no file of `shipped`/<any>/<any>.crt.
 * No bundle: none. */
bool authorities_find(const char *bundle, const char *shipped, struct buf *added, size_t *n,
                      struct error *err) MUST_USE;

/* Makes the root trust them, now and after update-ca-certificates. */
bool authorities_trust(int root, struct str added, struct error *err) MUST_USE;

/* Whether authorities_trust was done to this root. */
bool authorities_are_added(const char *root);

#define AUTHORITIES_BUNDLE "etc/ssl/certs/ca-certificates.crt"
