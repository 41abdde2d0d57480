/* The difference of two texts, line by line, as the hunks of a unified diff.
 *
 * The shortest script by Myers' algorithm in linear space; where texts differ in more than a
 * bounded number of lines the rest of a stretch is shown as replaced. Time and memory are bounded
 * by the lengths, and the same texts give the same bytes.
 */
#pragma once

#include "base/buf.h"

enum { TEXT_DIFF_MAX = 256 * 1024, TEXT_DIFF_CONTEXT = 3 };

/* Most bytes that a difference can have. */
#define TEXT_DIFF_OUT_MAX MIB(4)

/* Not too long, and without NUL. */
bool text_diff_takes(struct str text);

/* Appends hunks ("@@ -1,3 +1,4 @@" and lines that begin with ' ', '-' or '+'); nothing for equal
 * texts. ERR_TOO_LARGE for what is not taken. */
bool text_diff(struct str before, struct str after, struct buf *out, struct error *err) MUST_USE;
