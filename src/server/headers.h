/* The headers a browser is held to: one table, by what an answer is.
 *
 * headers_for_all and headers_for_https are whole lines for http_config; pages add theirs to one
 * answer.
 */
#pragma once

#include "http/call.h"

extern const char headers_for_all[];
extern const char headers_for_https[]; /* only where a browser is sure to reach us by HTTPS */

/* Before the first byte of an HTML page. */
bool headers_add_page(struct response *res, struct error *err) MUST_USE;
/* Of one with a script file of ours, which may ask our own API. */
bool headers_add_scripted_page(struct response *res, struct error *err) MUST_USE;
bool headers_add_console(struct response *res, struct error *err) MUST_USE;
