/* Replaces secrets in output by [redacted].
 *
 * A redactor looks for each value, its base64 at the three alignments in both alphabets, its
 * percent-encoded forms, and single lines of 16 bytes or more; values below four bytes are left
 * alone. What is longer than REDACT_PIECE is looked for in pieces of that length. It never changes
 * once made, so threads may share it. A redaction is one stream through it: it holds back only
 * what may be the beginning of something, and says the same however its input is cut.
 */
#pragma once

#include "base/buf.h"
#include "base/secret.h"

enum { REDACT_PIECE = 256, REDACT_MIN = 4, REDACT_LINE_MIN = 16 };

#define REDACT_MARK "[redacted]"

struct redactor;

/* The values are copied into locked memory and may be finished afterwards. */
struct redactor *redactor_create(const struct secret *const *values, size_t n);
void redactor_destroy(struct redactor *redactor); /* accepts NULL; wipes */

/* What it looks for, for tests: never to be shown. */
size_t redactor_count(const struct redactor *redactor);
struct str redactor_pattern(const struct redactor *redactor, size_t index);

/* Takes a piece of clean output; false is passed on to whoever fed. */
typedef bool redaction_sink(void *arg, struct str bytes);

struct redaction {
    const struct redactor *redactor; /* NULL: everything passes */
    redaction_sink *sink;
    void *arg;
    size_t n_held;
    size_t n_covered; /* bytes that come next and belong to a mark already put */
    bool touches;     /* nothing was put since the last mark */
    char held[REDACT_PIECE];
};

void redaction_init(struct redaction *redaction, const struct redactor *redactor,
                    redaction_sink *sink, void *arg);

/* False when the sink said so at least once; it got everything all the same. */
bool redaction_feed(struct redaction *redaction, struct str bytes);

/* The stream has ended: what was held back is decided and put. Ready for another stream. */
bool redaction_end(struct redaction *redaction);

/* A JSON value, string by string as they read without their escapes; a number that is a secret
 * becomes a text. ERR_INVALID_JSON when a string does not end. */
bool redact_json(const struct redactor *redactor, struct str text, struct buf *out,
                 struct error *err) MUST_USE;

/* A whole text at once, such as an error message. */
bool redact_text(const struct redactor *redactor, struct str text, struct buf *out,
                 struct error *err) MUST_USE;
