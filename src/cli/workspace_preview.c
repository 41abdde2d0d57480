/* `helmr workspace preview`. */
#include <stdio.h>

#include "base/json.h"
#include "cli/api.h"
#include "cli/commands.h"

bool workspace_preview_command(const struct invocation *invocation, int *exit_code,
                               struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str answer = {0}, url = {0};

    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    const char *workspace = api_part(&api, invocation->args[0]);
    const char *port = api_part(&api, invocation->args[1]);
    if (!api_send(&api, "POST", api_path(&api, "/workspaces/%s/ports/%s/preview", workspace, port),
                  (struct str){0}, &answer, err))
        return false;
    if (!json_find_text(answer, "url", &api.arena, &url))
        return error_set(err, ERR_INTERNAL, "the server made a link and did not say which");
    printf("%.*s\n", (int)url.len, url.ptr);
    *exit_code = 0;
    return true;
}
