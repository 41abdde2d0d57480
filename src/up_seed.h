/* Examples for a new installation, by `helmr up --seed`: a project is deployed, another one fails
 * to be, and there are runs in every status, a session that talks, a schedule and tokens. All of it
 * is asked for as anybody would, through the API and `helmr deploy`.
 *
 * Every request carries a key of its own, and a session that is made last says that all is there:
 * what was interrupted is gone on with, and nothing is there twice.
 */
#pragma once

#include "base/error.h"
#include "http/client.h"

/* src/tour/tour.ts, put into the binary by the build. */
struct str tour_source(void);

/* The client is logged in as an owner. */
bool seed_examples(struct http_client *client, const char *url, const char *directory,
                   const volatile bool *is_over, struct error *err) MUST_USE;
