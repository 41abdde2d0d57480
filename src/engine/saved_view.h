/* The stream of a saved machine at any place, as far as it is the machine's memory, which is sealed
 * and therefore mapped: nobody can take a page of it away. For any number of threads.
 */
#pragma once

#include "engine/engine.h"

struct saved_view;

/* ERR_UNSUPPORTED when its memory is not sealed. */
bool saved_view_open(const struct saved_image *image, struct saved_view **view,
                     struct error *err) MUST_USE;
void saved_view_close(struct saved_view *view); /* accepts NULL */

/* The `len` bytes of the stream at the offset: where they lie, or put together in the room, which
 * has space for them. False: they are not all of memory. */
bool saved_view_find(const struct saved_view *view, uint64_t offset, size_t len, char *room,
                     struct str *bytes);
