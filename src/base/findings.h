/* What a check of this host found: rows of ok, warn or fail with what was found and its cure. */
#pragma once

#include <stdio.h>

#include "base/error.h"

enum finding_level { FINDING_OK, FINDING_WARNING, FINDING_FAIL };

enum { FINDINGS_MAX = 48, FINDING_DETAIL = 640 };

struct findings {
    struct finding {
        enum finding_level level;
        char check[48];
        char detail[FINDING_DETAIL];
        char cure[256]; /* "" when there is none */
    } items[FINDINGS_MAX];
    size_t n;
};

/* `cure` may be NULL. What is over FINDINGS_MAX is dropped. */
void PRINTF_LIKE(5, 6) findings_add(struct findings *findings, enum finding_level level,
                                    const char *check, const char *cure, const char *fmt, ...);

bool findings_have_failure(const struct findings *findings);

/* A table on a terminal, lines with tabs otherwise, or one JSON document, on stdout. */
bool findings_print(const struct findings *findings, bool as_json, struct error *err) MUST_USE;
