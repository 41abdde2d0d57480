/* Archives of plain files: what archive_unpack does, with compression allowed or not. */
#pragma once

#include "image/tar_reader.h"

bool archive_extract(int fd, enum tar_coding coding, const char *folder, struct tar_budget budget,
                     struct error *err) MUST_USE;
