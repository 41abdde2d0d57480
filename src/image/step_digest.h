/* The key a finished build step is found by: BLAKE2b-256 over everything its result depends on.
 *
 * Every field goes in with its length, so that no two different steps give the same bytes. Times,
 * owners, secret values, cache contents and the machine do not count.
 */
#pragma once

#include "image/plan.h"

enum { STEP_DIGEST_TEXT = 65 };

/* `parent` is the key of the step before, or the manifest digest for the step after `from`;
 * `content` identifies what copy takes: a hash of the files or another image's digest. */
void step_digest(const struct step *step, const char *parent, const struct image_config *config,
                 const char *content, char digest[STEP_DIGEST_TEXT]);
