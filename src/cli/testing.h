/* A directory of its own for a test. */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/own.h"

enum { TEMPORARY_TEXT = 40 };

static inline bool temporary_make(char path[TEMPORARY_TEXT])
{
    snprintf(path, TEMPORARY_TEXT, "/tmp/helmr-cli-test-XXXXXX");
    return mkdtemp(path) != NULL;
}

static inline bool temporary_remove(const char *path)
{
    AUTO_FD int parent = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct error err;

    return tree_remove(parent, path + sizeof "/tmp/" - 1, &err);
}
