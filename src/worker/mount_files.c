/* Files of a mounted workspace, for those who look at it through the server: each request goes to
 * the agent, and its answer back. */
#include <string.h>

#include "base/encode.h"
#include "base/log.h"
#include "base/own.h"
#include "protocol/files.h"
#include "protocol/worker_api_mount.h"
#include "worker/guest_state.h"
#include "worker/mount.h"

/* Who asked waits no longer than that. */
enum { CALL_MS = 5000 };

static void answer(struct mount *mount, struct wire_file *file)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct error err;

    file->fence = mount_fence(mount);
    const struct exchange exchange = {
        .route = arena_printf(&arena, "leases/%s/file", mount->lease->id),
        .request_fields = wire_file_fields,
        .request = file,
        .timeout_ms = CALL_MS,
    };
    if (!line_call(&mount->line, &exchange, &arena, &err))
        log_info("file request not answered", LOG_STR("lease", mount->lease->id), LOG_ERR(&err));
}

static void refuse(struct mount *mount, struct str request_id, struct str code, struct str text)
{
    struct wire_file file = {.request_id = request_id, .code = code, .text = text};

    answer(mount, &file);
}

static uint32_t op_of(struct str name)
{
    if (str_equal(name, STR("list")))
        return FILES_LIST;
    return str_equal(name, STR("stat")) ? FILES_STAT : FILES_READ;
}

void mount_file_request(struct mount *mount, const struct wire_message *message)
{
    struct guest *guest = mount->guest;
    struct error err;

    if (mount->n_wishes == MOUNT_WISHES_MAX) {
        refuse(mount, message->request_id, STR("busy"),
               STR("the sandbox is asked for too much at once"));
        return;
    }
    struct file_wish *wish = &mount->wishes[mount->n_wishes++];
    wish->number = ++guest->number;
    snprintf(wish->request_id, sizeof wish->request_id, "%.*s", (int)message->request_id.len,
             message->request_id.ptr);
    const struct message_files question = {
        .id = wish->number,
        .op = op_of(message->op),
        .path = message->path.ptr ? message->path : STR(""),
        .offset = (uint64_t)message->offset,
        .length = (uint64_t)message->length,
        .after = message->name.ptr ? message->name : STR(""),
    };
    if (!guest_send(guest, MESSAGE_FILES, &question, &err)) {
        mount->n_wishes--;
        refuse(mount, message->request_id, STR("files_failed"), str_of(err.text));
    }
}

/* The wish of that number, which is granted or not from here on. */
static bool take_wish(struct mount *mount, uint64_t number, struct file_wish *wish)
{
    for (size_t i = 0; i < mount->n_wishes; i++) {
        if (mount->wishes[i].number != number)
            continue;
        *wish = mount->wishes[i];
        mount->wishes[i] = mount->wishes[--mount->n_wishes];
        return true;
    }
    return false;
}

static void pass_on(struct mount *mount, const char *request_id,
                    const struct message_files_result *result)
{
    size_t len = base64_encoded_len(result->data.len);
    AUTO_FREE char *data = alloc(len + 1);

    base64_encode(result->data, data);
    struct wire_file file = {
        .request_id = str_of(request_id),
        .data = {data, len},
        .size = (int64_t)result->size,
        .more = result->more,
    };
    answer(mount, &file);
}

bool mount_files_hear(struct mount *mount, const struct message *message)
{
    bool is_result = message->type == MESSAGE_FILES_RESULT;
    struct file_wish wish;

    if (!is_result && message->type != MESSAGE_ERROR)
        return false;
    if (!take_wish(mount, is_result ? message->files_result.id : message->error.id, &wish))
        return is_result;
    if (is_result)
        pass_on(mount, wish.request_id, &message->files_result);
    else
        refuse(mount, str_of(wish.request_id), message->error.code, message->error.text);
    return true;
}
