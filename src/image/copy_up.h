/* A layer takes over what it changes of those below: one entry copied with all that a layer keeps.
 *
 * Nothing follows a symbolic link.
 */
#pragma once

#include "base/error.h"

/* A file or symbolic link with content, owner, mode, attributes and time; the new name is free. */
bool copy_up(int from, const char *from_name, int to, const char *to_name,
             struct error *err) MUST_USE;

/* Owner, mode and attributes of an open file or folder. */
bool copy_up_facts(int from, int to, struct error *err) MUST_USE;
