/* The kernel's modules that the initramfs carries, loaded in the order it names.
 *
 * `order` has a line per module: the file beside it, and perhaps the channel it is for.
 */
#pragma once

#include "base/error.h"
#include "guest/kernel.h"

/* Called for each module in turn; `file` is its path. */
typedef bool module_loader(const char *file, struct error *err);

/* Stops at the first that fails. */
bool modules_each(const char *folder, enum transport_kind transport, module_loader *load,
                  struct error *err) MUST_USE;

/* A loader: hands the file to the kernel. A module that is there already is no error. */
bool module_load(const char *file, struct error *err) MUST_USE;
