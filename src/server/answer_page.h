/* The page where somebody without an account answers a token, by a link such as
 * /answer/<token>#<public access token>. What is behind the # stays in the browser: the page is the
 * same for every token, and its script asks the public API.
 */
#pragma once

#include "base/str.h"

/* src/server/answer.js, put into the binary by the build. */
struct str answer_script(void);
