#include "cli/keyring.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/process.h"

/* PROMPT_MS: somebody may have to unlock it first. */
enum { PROMPT_MS = 60 * 1000, TOKEN_MAX = 4096, ERRORS_MAX = 16 * 1024 };

#define SERVICE "helmr-cli"

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

static bool has_bus(void)
{
    const char *runtime = variable("XDG_RUNTIME_DIR");
    char path[PATH_MAX];

    if (variable("HELMR_CONFIG_DIR"))
        return false;
    if (variable("DBUS_SESSION_BUS_ADDRESS"))
        return true;
    if (!runtime)
        return false;
    snprintf(path, sizeof path, "%s/bus", runtime);
    return access(path, R_OK | W_OK) == 0;
}

/* True when it ended well; an error of the program or its absence is a keyring that is not there.
 */
static bool ask(const char *const *argv, struct str input, struct buf *out)
{
    const struct process_spec spec = {.argv = argv};
    AUTO(buf_finish) struct buf errors = {.max = ERRORS_MAX};
    struct error ignored;
    int status = 0;

    return has_bus() && process_run(&spec, input, PROMPT_MS, out, &errors, &status, &ignored) &&
           status == 0;
}

struct secret keyring_find(const char *url)
{
    const char *const argv[] = {"secret-tool", "lookup", "service", SERVICE, "account", url, NULL};
    AUTO(buf_finish) struct buf out = {.max = TOKEN_MAX};
    struct secret found = {0};

    if (ask(argv, (struct str){0}, &out) && out.len > 0) {
        while (out.len > 0 && out.bytes[out.len - 1] == '\n')
            out.len--;
        found = secret_create(buf_str(&out));
    }
    if (out.bytes)
        bytes_wipe(out.bytes, out.len);
    return found;
}

bool keyring_save(const char *url, const struct secret *token)
{
    const char *const argv[] = {"secret-tool", "store",   "--label", "Helmr login", "service",
                                SERVICE,       "account", url,       NULL};

    return ask(argv, secret_reveal(token), NULL);
}

void keyring_forget(const char *url)
{
    const char *const argv[] = {"secret-tool", "clear", "service", SERVICE, "account", url, NULL};

    /* What is not there is forgotten already. */
    (void)ask(argv, (struct str){0}, NULL);
}
