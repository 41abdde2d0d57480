/* What the commands about files of a workspace share. */
#pragma once

#include "cli/api.h"

/* /workspaces/W/files<route>?path=PATH, and where it is read from when --version or --live say so.
 * `more` is "" or "&name=value". */
const char *files_url(struct api *api, const struct invocation *invocation, const char *route,
                      const char *path, const char *more);

/* ERR_INVALID when both were given. */
bool files_source_is_clear(const struct invocation *invocation, struct error *err) MUST_USE;

/* The last part of a path; "" for the workspace itself. */
const char *files_base_name(struct api *api, const char *path);

/* The bytes of a file of that size, in parts, to a descriptor. A broken connection is taken up
 * again; ERR_CONFLICT when the file becomes another one meanwhile. */
bool files_download(struct api *api, const char *url, uint64_t size, int out,
                    struct error *err) MUST_USE;

/* The answer's version_id on a line, or the answer with --json. */
void files_print_version(struct api *api, const struct invocation *invocation, struct str answer);
