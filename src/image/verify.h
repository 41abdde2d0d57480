/* The parts of image_verify: names and what they lead to, then every byte. */
#pragma once

#include "image/census.h"

struct verifier {
    struct image_store *store;
    struct arena arena;
    struct census census;
    struct map diffs; /* hex of a layer's blob to its diff_id */
    struct image_verdict *verdict;
    bool is_repair;
    image_progress *progress;
    void *arg;
    int64_t done, total; /* bytes */
};

void verify_problem(struct verifier *verifier, const char *what, const char *cure, const char *fmt,
                    ...) PRINTF_LIKE(4, 5);

/* Every reference: manifest, configuration and layers are here, and have the sizes promised. */
void verify_images(struct verifier *verifier);

/* After damaged blobs went: names that lead to nothing whole go too. */
bool verify_drop_names(struct verifier *verifier, struct error *err) MUST_USE;
