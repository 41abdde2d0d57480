/* Projects: what the handlers of environments need to know of them. Everything is looked up in
 * the caller's organization, so that another's is not found.
 */
#pragma once

#include "http/call.h"
#include "store/store.h"

/* By the id or slug in the path; columns of project_find. */
bool project_of(struct call *call, struct tx *tx, struct rows *rows, struct error *err) MUST_USE;

/* A slug as it was given, else made of the name. An id is none: it could be another's. */
bool project_slug(struct call *call, struct str given, struct str name, struct str *slug,
                  struct error *err) MUST_USE;

/* The worker group of that name; without a name the first one configured. */
bool project_group(struct call *call, struct tx *tx, struct str name, const char **id,
                   struct error *err) MUST_USE;

/* A constraint that a slug broke, said as such. Returns false. */
bool project_slug_taken(struct error *err);
