/* The keyring of the desktop session, when there is one: logins under the service helmr-cli, one
 * per server.
 *
 * It is spoken to by `secret-tool`, a program of libsecret, when that is installed and the session
 * has a bus. Whoever names HELMR_CONFIG_DIR wants files there and nothing elsewhere. A keyring that
 * does not answer is none.
 */
#pragma once

#include "base/secret.h"

/* Unset when there is no keyring, or no login in it. */
struct secret keyring_find(const char *url);

/* False: there is no keyring that took it. */
bool keyring_save(const char *url, const struct secret *token);
void keyring_forget(const char *url);
