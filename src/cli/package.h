/* Completes a package.json for deployment: only what is missing is added, everything that is
 * there keeps its place and its form.
 */
#pragma once

#include "base/buf.h"

/* ERR_INVALID unless the text is a JSON object. */
bool package_complete(struct str text, struct buf *out, struct error *err) MUST_USE;
