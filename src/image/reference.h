/* Image references: host/repository[:tag][@digest], with Docker Hub's short names completed.
 *
 * A parsed reference is canonical: two texts that mean the same image give the same fields.
 */
#pragma once

#include "image/image.h"

enum { REFERENCE_TEXT = 768 };

struct reference {
    char host[256];
    char repository[256];
    char tag[129];            /* "latest" when neither tag nor digest was given */
    char digest[DIGEST_TEXT]; /* or empty */
};

bool reference_parse(struct str text, struct reference *reference, struct error *err) MUST_USE;

/* Canonical text: docker.io/library/node:24-bookworm-slim. */
void reference_format(const struct reference *reference, char text[REFERENCE_TEXT]);
