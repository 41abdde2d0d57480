/* Images and finished steps shared with other workers, by way of the server.
 *
 * A blob's sha256 is also the id of an object of the server's store. What comes is verified and
 * published in the local store only when whole; what goes is asked for first and sent only
 * when it is missing. A share belongs to one thread and one lease; a lease that ends, ends its
 * calls (ERR_CANCELLED).
 */
#pragma once

#include "base/secret.h"
#include "image/image.h"
#include "worker/lease.h"
#include "worker/link.h"

struct image_share {
    struct worker *worker;
    struct lease *lease;
    struct line line;
    struct arena *arena;
};

bool share_open(struct lease *lease, struct arena *arena, struct image_share *share,
                struct error *err) MUST_USE;
void share_close(struct image_share *share); /* accepts one that was never opened */

/* After YOURS the step is this lease's: it is done here and recorded, or another lease gets it when
 * this one is over. BUSY: another lease is at it; ask again after SHARE_BUSY_MS. */
enum share_step { SHARE_HIT, SHARE_YOURS, SHARE_BUSY };
enum { SHARE_BUSY_MS = 500 };

/* A hit without a layer changed no file. The layer's chain is left empty. */
bool share_find_step(struct image_share *share, const char *key, enum share_step *found,
                     struct image_layer *layer, bool *has_layer, struct error *err) MUST_USE;

/* Uploads the blob where it is missing, then tells it. `layer` may be NULL. */
bool share_record_step(struct image_share *share, const char *key, const struct image_layer *layer,
                       struct error *err) MUST_USE;

/* Brings a blob (sha256:…) into the store unless it is there; several threads that want the same
 * one fetch it once. A size of -1 is unknown, at most 4 MiB. ERR_NOT_FOUND: the server has none. */
bool share_fetch_blob(struct image_share *share, const char *digest, int64_t size,
                      struct error *err) MUST_USE;

/* Uploads what the server lacks of an image; *objects, in the arena, is what build/complete names.
 * When that is refused with ERR_OBJECT_GONE, this once more and then again that. */
bool share_put_image(struct image_share *share, const struct image *image,
                     struct json_list *objects, struct error *err) MUST_USE;

/* Brings everything the store lacks of an image, manifest first, and records it under the
 * reference. */
bool share_get_image(struct image_share *share, const char *digest, const char *reference,
                     struct error *err) MUST_USE;

/* The name a deployed image has in the local store, in the arena:
 * helmr.local/<project>/<image>:<version>. */
const char *share_reference(struct arena *arena, struct str project, struct str image_id,
                            struct str version);

/* A build secret. ERR_NOT_FOUND names it. */
bool share_secret(struct image_share *share, const char *name, struct secret *value,
                  struct error *err) MUST_USE;
