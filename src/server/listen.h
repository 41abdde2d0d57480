/* Where a server listens: whether an address or URL can only be reached from this machine. */
#pragma once

#include <stdbool.h>

bool listen_address_is_loopback(const char *address); /* host:port */
bool listen_url_is_loopback(const char *url);
