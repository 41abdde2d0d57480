/* Which base images can be made here, and of what: the reading of a reference, pure. */
#pragma once

#include "image/reference.h"

struct recipe {
    bool has_node;
    int node_major;
    char node_version[32]; /* as asked: 24, 24.1 or 24.1.0 */
    char suite[16];        /* of Debian */
};

/* What can be made, for messages. */
#define RECIPE_KNOWN "node:<version>[-bookworm|-bullseye|-trixie][-slim] or debian:<suite>[-slim]"

/* ERR_UNSUPPORTED names what can be made. */
bool recipe_find(const struct reference *reference, struct recipe *recipe,
                 struct error *err) MUST_USE;

/* The major version of npm that a major version of Node brings. */
const char *recipe_npm(int node_major);
