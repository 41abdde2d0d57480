#include "server/process_request.h"

#include <string.h>

#include "base/encode.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/page.h"
#include "server/process_object.h"

/* How long a call waits for a program to take what it was given before. */
enum { ROOM_WAIT_MS = 20 * 1000 };

static bool goes_up(struct str path)
{
    struct str piece;

    while (str_split(&path, '/', &piece))
        if (str_equal(piece, STR("..")))
            return true;
    return str_equal(path, STR(".."));
}

bool process_check_cwd(struct str cwd, struct error *err)
{
    return !cwd.ptr || (cwd.len > 0 && cwd.ptr[0] == '/' && !goes_up(cwd)) ||
           error_set(err, ERR_INVALID, "/cwd must be an absolute path without ..");
}

bool process_begin(struct call *call, struct tx *tx, struct process_made *made, struct wakes *wakes,
                   struct error *err)
{
    char workspace[ID_TEXT];
    bool is_new;

    return workspace_of_path(call, workspace, err) &&
           mount_want(tx, call_environment(call), workspace, call->arena, &made->mount, &is_new,
                      wakes, err);
}

bool process_launch(struct tx *tx, const struct process_made *made, struct wakes *wakes,
                    struct error *err)
{
    const struct mount_row *mount = &made->mount;
    static const struct wire_message nothing = {0};
    struct process_row process = {.kind = made->kind};

    /* One that ends takes nothing more: the next mount gets it. */
    if (!mount->lease_id[0] || mount->is_asked_to_stop || mount->state == MOUNT_UNMOUNTING)
        return true;
    memcpy(process.id, made->id, ID_TEXT);
    memcpy(process.mount_id, mount->id, ID_TEXT);
    return process_send(tx, &process, "process_start", &nothing, wakes, err);
}

struct input_body {
    int64_t offset;
    struct str data;
};

static const struct json_field input_fields[] = {
    {"offset", JSON_INTEGER, offsetof(struct input_body, offset), REQUIRED, .max = INT64_MAX},
    {"data", JSON_TEXT, offsetof(struct input_body, data), REQUIRED, .max = WIRE_INPUT_MAX},
    {0},
};

static bool read_input(struct call *call, int64_t *offset, struct str *bytes, struct error *err)
{
    struct input_body body;

    if (!call_body(call, input_fields, &body, sizeof body, err))
        return false;
    size_t len = base64_decoded_max(body.data.len);
    char *raw = arena_alloc(call->arena, len + 1);
    if (!base64_decode(body.data, raw, &len))
        return error_set(err, ERR_INVALID, "/data must be base64");
    if (len > PROCESS_INPUT_MAX)
        return error_set(err, ERR_TOO_LARGE, "/data must be of at most 256 KiB");
    *offset = body.offset;
    *bytes = (struct str){raw, len};
    return true;
}

static bool answer_input(const struct process_row *process, const char *id, int64_t offset,
                         struct str bytes, struct response *res, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    int64_t now = time_now_ms();

    json_open(&json, NULL);
    json_string(&json, "id", id);
    json_string(&json, "stream", process->kind == PROCESS_EXEC ? "stdin" : "input");
    json_int(&json, "offset_start", offset);
    json_int(&json, "offset_end", offset + (int64_t)bytes.len);
    json_base64(&json, "data", bytes);
    json_time(&json, "observed_at", now);
    json_time(&json, "created_at", now);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

/* A refusal that tells where the input ends. */
static bool refuse(struct call *call, const struct process_row *process, struct response *res,
                   const struct error *err)
{
    if (err->code != ERR_STREAM_OFFSET)
        return false;
    response_error(res, err,
                   str_of(arena_printf(call->arena, "{\"cursor\":%lld}",
                                       (long long)process->input_end)));
    return true;
}

bool process_input_post(struct call *call, enum process_kind kind, struct response *res,
                        struct error *err)
{
    struct process_row process;
    struct wakes wakes = {0};
    char chunk_id[ID_TEXT];
    struct str bytes = {0};
    int64_t offset = 0;
    bool has_room;
    AUTO_TX tx = NULL;

    id_make(chunk_id);
    if (!read_input(call, &offset, &bytes, err) || !store_begin(server_of(call)->store, &tx, err) ||
        !process_hold_path(call, tx, kind, &process, err))
        return false;
    if (!process_input(tx, &process, offset, bytes, chunk_id, &has_room, &wakes, err))
        return refuse(call, &process, res, err);
    if (!has_room && call->is_last_try)
        return error_set(err, ERR_UNAVAILABLE, "the program does not take its input");
    if (!has_room) {
        response_park(res, arena_printf(call->arena, "process:%s", process.id), ROOM_WAIT_MS);
        return true;
    }
    return hub_commit(&server_of(call)->hub, &tx, &wakes, err) &&
           answer_input(&process, chunk_id, offset, bytes, res, err);
}
