/* The extended attributes of a file that images keep. */
#pragma once

#include "image/ext4_tree.h"

/* Sorted by name; in the arena. */
bool ext4_attributes_read(int fd, struct arena *arena, const struct ext4_attribute **attributes,
                          size_t *n, struct error *err) MUST_USE;
