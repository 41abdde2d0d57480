/* Documents changed as text: what comes out is canonical, as json_canonical writes it. */
#pragma once

#include "base/buf.h"

/* The members of `patch` put over those of `object`; both are objects. A name in the patch has 1 to
 * name_max bytes, the whole at most max. ERR_INVALID, ERR_TOO_LARGE. */
bool json_merge(struct str object, struct str patch, size_t name_max, size_t max, struct buf *out,
                struct error *err) MUST_USE;

/* `amount`, a number, added to a member that is a number, or to 0 where there is none. */
bool json_add(struct str object, struct str name, struct str amount, size_t name_max, size_t max,
              struct buf *out, struct error *err) MUST_USE;
