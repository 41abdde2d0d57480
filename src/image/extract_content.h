/* A file's bytes from an archive to the disk: what is zero there for long becomes a hole. */
#pragma once

#include "image/tar_reader.h"

/* Writes the entry the reader stands at to an empty file; more than `size` bytes are refused. */
bool extract_content(struct tar_reader *reader, int fd, int64_t size, struct error *err) MUST_USE;
