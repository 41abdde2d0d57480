/* Checkpoints: a saved sandbox on its way from a folder in memory into the store, and back.
 *
 * What leaves this process is sealed with the workers' own key, which no server ever has. Equal
 * pieces of memory are stored once as far as they are in the parent's packs.
 */
#pragma once

#include "base/sha256.h"
#include "engine/saved.h"
#include "worker/run.h"

/* What has to be known to wake it up again; part of the sealed manifest. */
struct checkpoint_about {
    uint8_t nonce[GUEST_NONCE_LEN];
    char run_id[ID_TEXT];   /* whose memory it is */
    struct guest_base base; /* the version that the agent in it remembers */
};

struct checkpoint_kept {
    char manifest[SHA256_HEX];
    struct json_list objects; /* struct wire_object */
    int64_t logical_bytes, stored_bytes;
};

/* A manifest of the workers' own, whose parts are the arena's. */
bool checkpoint_read_manifest(struct run *run, const char *digest, struct arena *arena,
                              struct manifest *manifest, struct error *err) MUST_USE;
#define CHECKPOINT_STREAM "memory" /* of a manifest: the image */

/* What a run's memory was before: what it has in common with that is not stored again. The last
 * checkpoint of a run that came back, else the template its sandbox is a copy of. */
bool checkpoint_find_parent(struct run *run, struct error *err) MUST_USE;

/* A saved sandbox that is nobody's, to be a parent. */
bool checkpoint_keep_base(struct run *run, const struct saved_image *image,
                          struct checkpoint_kept *kept, struct error *err) MUST_USE;

/* While *is_growing what is saved is still coming; NULL: it is there.
 * ERR_OBJECT_GONE belongs to stage: then what it shares with its parent has to be kept anew,
 * without one. */
bool checkpoint_keep(struct run *run, const struct saved_image *image,
                     const atomic_bool *is_growing, const struct checkpoint_about *about,
                     struct checkpoint_kept *kept, struct error *err) MUST_USE;

/* ERR_DAMAGED or ERR_NOT_FOUND when what is stored cannot be it; anything else may pass. */
bool checkpoint_bring(struct run *run, const struct wire_resume_grant *grant,
                      struct saved_writer *writer, struct checkpoint_about *about,
                      struct error *err) MUST_USE;
