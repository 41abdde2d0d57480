/* What the command line remembers about its user: the default server and a login per server.
 *
 * $HELMR_CONFIG_DIR, $XDG_CONFIG_HOME/helmr or ~/.config/helmr (0700) holds config.toml and
 * credentials.toml (0600). A credentials file that others may read is refused. Where the session
 * has a keyring (keyring.h), logins are there instead.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/secret.h"

#define CONFIG_DEFAULT_URL "http://127.0.0.1:3000"

bool config_directory(struct arena *arena, const char **path, struct error *err) MUST_USE;

/* --api-url, HELMR_API_URL, the saved default or CONFIG_DEFAULT_URL, in the form it is saved. */
bool config_url(const char *flag, struct arena *arena, const char **url,
                struct error *err) MUST_USE;

/* An http or https address without query, fragment and trailing slash. */
bool config_normalise_url(const char *text, struct arena *arena, const char **url,
                          struct error *err) MUST_USE;

/* The saved login of this server; unset when there is none. */
bool config_login(const char *url, struct secret *token, struct error *err) MUST_USE;

/* Nothing saved is nothing to forget. */
bool config_forget_login(const char *url, struct error *err) MUST_USE;

/* Saves the login and makes the server the default. */
bool config_save_login(const char *url, const struct secret *token, struct error *err) MUST_USE;
