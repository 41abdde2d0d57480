/* One blob from a registry into the store: streamed to a partial file of its name, hashed on the
 * way, resumed after a failure (also a later pull's), and published only when whole and verified.
 */
#pragma once

#include "image/registry_batch.h"

batch_move registry_blob_get;
