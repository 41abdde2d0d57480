#include "guest/capture.h"

#include <fcntl.h>

#include "base/own.h"
#include "guest/park.h"
#include "guest/program.h"
#include "guest/remember.h"
#include "guest/room.h"
#include "guest/secrets.h"
#include "protocol/tree_sum.h"

enum {
    PIECE = 262144,
    STEP_ROOM = PIECE + WALK_STEP_MAX,
    ENTRIES = 256,      /* looked at in one step, though there is nothing to tell of them */
    STEPS_PER_TURN = 4, /* a megabyte, as much as goes to the wire at once */
    WIRE_MS = 5
};

struct capture {
    uint64_t id;
    uint16_t stream;
    bool is_layer;
    int image; /* of a layer: what it is laid over; else -1 */
    struct walk walk;
    struct tree_sum sum;
    struct buf piece;
    char mark[SEEN_MARK]; /* empty: it is not to be remembered */
    const char *lack;     /* why it is no difference though one was asked for, or NULL */
};

static void capture_destroy(struct agent *agent)
{
    struct capture *capture = agent->capture;

    agent->capture = NULL;
    walk_finish(&capture->walk);
    auto_close(&capture->image);
    buf_finish(&capture->piece);
    free(capture);
}

static void give_up(struct agent *agent, const struct error *err)
{
    uint64_t id = agent->capture->id;
    uint16_t stream = agent->capture->stream;
    bool was_remembering = agent->capture->walk.is_remembering;
    bool is_no_difference = agent->capture->walk.is_difference && err->code == ERR_CONFLICT;
    const char *code = err->code == ERR_TOO_LARGE ? "too_large"
                       : is_no_difference         ? "not_a_difference"
                                                  : "capture_failed";
    struct error ignored;

    capture_destroy(agent);
    /* Parts of the table are gone with it. */
    if (was_remembering)
        seen_forget(&agent->seen, "the last capture was given up");
    remember_listen(agent);
    (void)!channel_send_data(&agent->channel, stream, STR(""), true, &ignored);
    agent_refuse(agent, id, "capture", code, err);
}

void capture_cancel(struct agent *agent)
{
    struct error err = {.code = ERR_CANCELLED, .text = "the capture was given up"};

    if (agent->capture)
        give_up(agent, &err);
}

/* Paths of the walk are relative to the workspace or the image, those of secrets to the root. */
static enum walk_verdict judge(void *arg, struct str path)
{
    const struct agent *agent = arg;
    char full[2 * TREE_PATH_MAX];
    int len =
        snprintf(full, sizeof full, "%s/%.*s", agent->capture->is_layer ? "" : agent->sandbox.mount,
                 (int)path.len, path.ptr);

    for (const struct program *p = agent->programs; p; p = p->next) {
        switch (secrets_trace(p->secrets, (struct str){full, (size_t)len})) {
        case SECRETS_PLACEHOLDER: return WALK_LEAVE;
        case SECRETS_DIRECTORY: return WALK_LEAVE_WHEN_EMPTY;
        case SECRETS_NO_TRACE: break;
        }
    }
    return WALK_TAKE;
}

static bool is_allowed(struct agent *agent, const struct message_capture *message,
                       struct error *err)
{
    const struct sandbox *sandbox = &agent->sandbox;

    if (!sandbox->is_ready || agent->capture || agent->place || agent->resync.is_wanted)
        return error_set(err, ERR_CONFLICT, "the sandbox is not ready");
    if (message->is_layer && sandbox->layer_fd < 0)
        return error_set(err, ERR_UNSUPPORTED, "there is no layer here to capture");
    if (!message->is_layer && (!sandbox->mount || sandbox->upper_fd < 0))
        return error_set(err, ERR_UNSUPPORTED, "there is no workspace here to capture");
    if (message->generation != sandbox->generation)
        return error_set(err, ERR_CONFLICT, "this is another generation");
    if (agent->room && !agent->hold.room.is_still)
        return error_set(err, ERR_CONFLICT, "there may be processes in the room");
    for (const struct program *p = agent->programs; p; p = p->next) {
        if (!park_is_frozen(p) && !p->held.is_still && !program_is_in_room(p))
            return error_set(err, ERR_CONFLICT, "program %u is running", p->number);
    }
    if (message->stream > UINT16_MAX || message->stream % 2 == 0)
        return error_set(err, ERR_INVALID, "stream %u is not the host's", message->stream);
    return channel_open_tree(&agent->channel, (uint16_t)message->stream, CHANNEL_SENDS, err);
}

/* Whether the difference can be told that is asked for; else why it cannot. */
static bool is_known(const struct agent *agent, struct str since, const char **lack)
{
    const struct seen *seen = &agent->seen;

    if (!since.len)
        return false;
    if (!seen->root)
        *lack = seen->lack ? seen->lack : "nothing is remembered";
    else if (!str_equal(since, str_of(seen->mark)))
        *lack = "something else is remembered";
    else if (seen_links_are_touched(seen, agent->sandbox.upper_fd))
        *lack = "a file with several names was touched";
    return !*lack;
}

static void begin_walk(struct agent *agent, struct capture *capture,
                       const struct message_capture *message)
{
    struct walk *walk = &capture->walk;

    walk_init(walk, capture->is_layer ? agent->sandbox.layer_fd : agent->sandbox.upper_fd, judge,
              agent);
    walk->lower_fd = capture->is_layer ? capture->image : agent->sandbox.lower_fd;
    walk->is_live = agent->programs || agent->room;
    walk->seen = &agent->seen;
    remember_suspend(agent);
    walk->is_difference = is_known(agent, message->since, &capture->lack);
    if (message->mark.len) {
        snprintf(capture->mark, sizeof capture->mark, "%.*s", (int)message->mark.len,
                 message->mark.ptr);
        remember_walk(agent, walk);
    }
}

void capture_begin(struct agent *agent, const struct message_capture *message)
{
    struct error err = {0};

    if (!is_allowed(agent, message, &err)) {
        agent_refuse(agent, message->id, "capture", "invalid_request", &err);
        return;
    }
    struct capture *capture = alloc(sizeof *capture);
    *capture = (struct capture){
        .id = message->id,
        .stream = (uint16_t)message->stream,
        .is_layer = message->is_layer,
        .image = message->is_layer ? open("/image", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1,
        .piece = {.max = STEP_ROOM},
    };
    /* What we mounted on it is no part of a layer. */
    if (capture->is_layer)
        sandbox_clear(&agent->sandbox);
    begin_walk(agent, capture, message);
    tree_sum_init(&capture->sum);
    agent->capture = capture;
}

static bool step(struct agent *agent, struct error *err)
{
    struct capture *capture = agent->capture;

    capture->piece.len = 0;
    bool fine = true;
    for (int i = 0; i < ENTRIES && fine && !capture->walk.is_done && capture->piece.len < PIECE;
         i++)
        fine = walk_step(&capture->walk, &capture->piece, err);
    seen_leave(&agent->seen);
    if (!fine)
        return false;
    tree_sum_update(&capture->sum, buf_str(&capture->piece));
    return channel_send_data(&agent->channel, capture->stream, buf_str(&capture->piece),
                             capture->walk.is_done, err);
}

static void finish(struct agent *agent)
{
    struct capture *capture = agent->capture;
    uint8_t digest[BLAKE2B_LEN];

    tree_sum_final(&capture->sum, digest);
    remember_walked(agent, &capture->walk, capture->mark);
    if (!capture->lack && capture->mark[0])
        capture->lack = agent->seen.lack;
    agent_send(agent, MESSAGE_CAPTURE_END,
               &(struct message_capture_end){
                   .id = capture->id,
                   .entries = capture->walk.n_entries,
                   .bytes = capture->walk.n_bytes,
                   .skipped = capture->walk.n_skipped,
                   .digest = {(const char *)digest, sizeof digest},
                   .files_read = capture->walk.n_read,
                   .bytes_read = capture->walk.bytes_read,
                   .lack = str_of(capture->lack ? capture->lack : ""),
    });
    capture_destroy(agent);
    remember_listen(agent);
}

void capture_settle(struct agent *agent)
{
    struct capture *capture = agent->capture;
    struct error err = {0};

    if (!capture)
        return;
    bool is_open = channel_is_open(&agent->channel, capture->stream, CHANNEL_SENDS);
    if (!is_open && capture->walk.is_done) {
        finish(agent);
        return;
    }
    if (!is_open) {
        capture_cancel(agent); /* the host wants no more of it */
        return;
    }
    for (int i = 0; i < STEPS_PER_TURN && !capture->walk.is_done; i++) {
        if (channel_send_room(&agent->channel, capture->stream) < STEP_ROOM)
            return; /* credit wakes the loop */
        if (!step(agent, &err)) {
            give_up(agent, &err);
            return;
        }
    }
    agent_again(agent, capture->walk.is_done ? WIRE_MS : 0);
}
