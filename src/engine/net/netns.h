/* Network namespaces, each kept alive by a bind below /run/helmr/<tag>.
 *
 * A namespace is entered by one thread for the length of one piece of work; the
 * process as a whole never moves.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

enum { NETNS_IDENTITY_TEXT = 32 };

/* The directory for the binds: a mount of its own whose unmounts reach every sandbox's mount
 * namespace, so that none keeps another's network alive. */
bool netns_dir_open(const char *run_dir, struct error *err) MUST_USE;
void netns_dir_close(const char *run_dir);

/* Makes an empty namespace bound at the path; *fd holds it. Loopback is down. */
bool netns_make(const char *path, int *fd, char identity[NETNS_IDENTITY_TEXT],
                struct error *err) MUST_USE;

/* Runs the function on this thread inside the namespace. */
bool netns_run(int fd, bool (*function)(void *arg, struct error *err), void *arg,
               struct error *err) MUST_USE;

/* Unbinds and unlinks; absence is success. */
bool netns_remove(const char *path, struct error *err) MUST_USE;
void netns_remove_strays(const char *run_dir);

/* A file below /proc/sys of the namespace this thread is in. */
bool sysctl_write(const char *path, const char *value, struct error *err) MUST_USE;
