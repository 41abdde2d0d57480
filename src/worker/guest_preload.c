/* What a guest does ahead of its run, while it waits at the gate. */
#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "image/image.h"
#include "worker/guest_state.h"

enum { PRELOAD_MS = 60 * 1000 };

struct str guest_options(const struct image_config *config, struct arena *arena)
{
    AUTO(buf_finish) struct buf text = {.max = KIB(64)};
    struct json_writer writer = json_begin(&text);
    struct error err;

    json_open(&writer, NULL);
    json_text(&writer, "workdir", config->workdir);
    json_close(&writer);
    return json_end(&writer, &err) ? arena_str(arena, buf_str(&text)) : STR("{}");
}

bool guest_preload(struct guest *guest, const struct guest_setup *setup, const char *module,
                   struct error *err)
{
    struct message_preload message = {
        .id = ++guest->number,
        .program = guest->program,
        .module = module ? str_of(module) : (struct str){0},
        .workspace_path = setup->mount ? str_of(setup->mount) : (struct str){0},
        .options = guest_options(setup->config, &guest->arena),
    };

    guest->has_preloaded = false;
    guest->awaits_preload = true;
    bool has_come = guest_send(guest, MESSAGE_PRELOAD, &message, err) &&
                    guest_wait_for(guest, &guest->has_preloaded, time_boot_ms() + PRELOAD_MS, err);
    guest->awaits_preload = false;
    if (!has_come)
        return guest_fail(guest, "preload", "agent_unhealthy", err);
    if (guest->preload_error.len)
        return error_set(err, ERR_UNPROCESSABLE, "loading %s ahead: %.*s",
                         module ? module : "nothing", (int)guest->preload_error.len,
                         guest->preload_error.ptr);
    guest_set_preloaded(guest, module);
    return true;
}

void guest_take_preloaded(struct guest *guest, const struct message_preloaded *preloaded)
{
    struct str none = {0}, text = preloaded->text.len ? preloaded->text : STR("it failed");

    guest->has_preloaded = true;
    guest->preload_error = preloaded->ok ? none : guest_keep(guest, text);
}

void guest_set_preloaded(struct guest *guest, const char *module)
{
    guest->preloaded = module ? arena_text(&guest->arena, str_of(module)) : NULL;
}

const char *guest_preloaded(const struct guest *guest)
{
    return guest->preloaded;
}
