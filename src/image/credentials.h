/* Credentials for registries from Docker's config.json. Helpers the file names are programs of
 * their own and are not run: only what stands in the file is used.
 */
#pragma once

#include "base/error.h"
#include "base/secret.h"
#include "base/str.h"

struct credential {
    struct secret basic;    /* user:password, or unset */
    struct secret identity; /* a refresh token for the token service, or unset */
    char helper[64];        /* the helper that would have them when nothing else was found */
};

void credential_finish(struct credential *credential);

/* What the document has for host/repository; the longest key wins. Nothing found is no error and
 * leaves all unset. No text of the document is in *err. */
bool credentials_read(struct str document, struct str host, struct str repository,
                      struct credential *credential, struct error *err) MUST_USE;

/* The same from a file. */
bool credentials_find(const char *path, const char *host, const char *repository,
                      struct credential *credential, struct error *err) MUST_USE;
