/* The source of a project as one request body: every file that belongs to it, in a tar that is
 * the same for the same files, inside the multipart form a deployment is posted as.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/env.h"

enum { UPLOAD_ENTRIES_MAX = 100000 };

#define UPLOAD_BYTES_MAX (512 * UINT64_C(1024) * 1024)

struct upload_request {
    const char *root;
    const struct env_pair *env; /* variables for the evaluation */
    size_t n_env;
    bool no_cache;
    /* Told of each link that is left out because it leads outside, or NULL. */
    void (*skipped)(void *arg, const char *path, const char *target);
    void *skipped_arg;
};

struct upload {
    int fd; /* nobody else can open it: it has no name */
    uint64_t len;
    uint64_t tar_len;
    size_t n_files;
    char content_hash[72];  /* sha256:… of the tar */
    char content_type[128]; /* of the form */
};

bool upload_create(const struct upload_request *request, struct upload *upload,
                   struct error *err) MUST_USE;
void upload_finish(struct upload *upload);

/* An empty file without a name, so that nothing is left however this ends; -1 with *err. */
int upload_temporary(struct error *err);
