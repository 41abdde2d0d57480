/* The table of every route of the server. */
#pragma once

#include "http/route.h"

extern const struct route server_routes[];
extern const size_t n_server_routes;
