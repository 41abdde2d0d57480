#include "guest/place.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/own.h"
#include "guest/adapter.h"
#include "guest/agent.h"
#include "guest/path.h"
#include "guest/place_tree.h"
#include "guest/remember.h"

enum { STEPS_PER_TURN = 1024 };

struct place {
    uint64_t id;
    uint16_t stream;
    struct tree_decoder decoder;
    struct place_tree tree;
    char mark[SEEN_MARK]; /* empty: it is not to be remembered */
    bool is_looking;      /* all of it is there, and is looked at */
    struct walk walk;
};

static void place_destroy(struct agent *agent)
{
    struct place *place = agent->place;

    agent->place = NULL;
    tree_decoder_finish(&place->decoder);
    place_tree_finish(&place->tree);
    if (place->is_looking)
        walk_finish(&place->walk);
    free(place);
}

void place_cancel(struct agent *agent)
{
    if (agent->place)
        place_destroy(agent);
}

bool place_reads(const struct agent *agent, uint16_t stream)
{
    return agent->place && agent->place->stream == stream;
}

/* In the file system that programs see. */
static bool open_workspace(const struct sandbox *sandbox, int *fd, struct error *err)
{
    AUTO_FD int parent = -1;
    const char *name;

    if (!path_parent(SANDBOX_ROOT, sandbox->mount, false, &parent, &name, err))
        return false;
    *fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *fd >= 0 || error_errno(err, "opening the workspace");
}

static bool is_allowed(const struct agent *agent, const struct message_place *message,
                       struct error *err)
{
    const struct sandbox *sandbox = &agent->sandbox;

    if (!sandbox->is_ready || agent->place || agent->capture || agent->resync.is_wanted)
        return error_set(err, ERR_CONFLICT, "the sandbox is not ready");
    if (!sandbox->mount || sandbox->upper_fd < 0)
        return error_set(err, ERR_UNSUPPORTED, "there is no workspace here");
    if (message->generation != sandbox->generation)
        return error_set(err, ERR_CONFLICT, "this is another generation");
    if (agent->room)
        return error_set(err, ERR_CONFLICT, "there may be processes in the room");
    for (const struct program *p = agent->programs; p; p = p->next) {
        if (!p->adapter || p->adapter->state >= ADAPTER_RELEASED)
            return error_set(err, ERR_CONFLICT, "program %u is running", p->number);
    }
    return (message->stream <= UINT16_MAX && message->stream % 2 == 1) ||
           error_set(err, ERR_INVALID, "stream %u is not the host's", message->stream);
}

void place_begin(struct agent *agent, const struct message_place *message)
{
    struct error err = {0};
    AUTO_FD int root = -1;

    if (!is_allowed(agent, message, &err) || !open_workspace(&agent->sandbox, &root, &err) ||
        !channel_open_tree(&agent->channel, (uint16_t)message->stream, CHANNEL_RECEIVES, &err)) {
        agent_refuse(agent, message->id, "place", "invalid_request", &err);
        return;
    }
    struct place *place = alloc(sizeof *place);
    *place = (struct place){.id = message->id, .stream = (uint16_t)message->stream};
    snprintf(place->mark, sizeof place->mark, "%.*s", (int)message->mark.len, message->mark.ptr);
    place_tree_init(&place->tree, take_fd(&root));
    tree_decoder_init(&place->decoder, place_tree_entry, place_tree_bytes, &place->tree);
    agent->place = place;
}

static void give_up(struct agent *agent, bool is_end, const struct error *err)
{
    uint64_t id = agent->place->id;
    uint16_t stream = agent->place->stream;
    struct error other;

    place_destroy(agent);
    if (!is_end && !channel_reset(&agent->channel, stream, 0, &other))
        agent_die(agent, &other);
    agent_refuse(agent, id, "place", "mount_failed", err);
}

static void place_done(struct agent *agent)
{
    struct place *place = agent->place;

    if (place->is_looking && place->walk.is_done)
        remember_walked(agent, &place->walk, place->mark);
    bool is_unfinished = place->is_looking && place->walk.is_remembering;
    agent_send(agent, MESSAGE_PLACED,
               &(struct message_placed){
                   .id = place->id,
                   .entries = place->tree.n_entries,
                   .bytes = place->tree.n_bytes,
               });
    place_destroy(agent);
    if (is_unfinished)
        seen_forget(&agent->seen, "the workspace could not be looked at");
    remember_listen(agent);
}

/* No program has been there yet: what is there now is what the host sent. */
static void begin_looking(struct agent *agent)
{
    struct place *place = agent->place;

    remember_suspend(agent);
    if (!place->mark[0]) {
        seen_forget(&agent->seen, NULL);
        place_done(agent);
        return;
    }
    walk_init(&place->walk, agent->sandbox.upper_fd, NULL, NULL);
    place->walk.lower_fd = agent->sandbox.lower_fd;
    place->walk.is_silent = place->is_looking = true;
    remember_walk(agent, &place->walk);
    if (place->walk.is_remembering)
        agent_again(agent, 0);
    else
        place_done(agent);
}

bool place_data(struct agent *agent, struct str bytes, bool is_end, struct error *err)
{
    struct place *place = agent->place;
    struct error why = {0};

    if (!tree_decode(&place->decoder, bytes, &why) ||
        (is_end &&
         !(tree_decode_end(&place->decoder, &why) && place_tree_end(&place->tree, &why)))) {
        give_up(agent, is_end, &why);
        return true;
    }
    if (!is_end)
        return bytes.len == 0 || channel_consumed(&agent->channel, place->stream, bytes.len, err);
    begin_looking(agent);
    return true;
}

void place_settle(struct agent *agent)
{
    struct place *place = agent->place;
    AUTO(buf_finish) struct buf nothing = {.max = 1};
    struct error err;

    if (!place || !place->is_looking)
        return;
    bool fine = true;
    for (int i = 0; i < STEPS_PER_TURN && fine && !place->walk.is_done; i++)
        fine = walk_step(&place->walk, &nothing, &err);
    seen_leave(&agent->seen);
    /* It is there all the same: the next capture will tell everything. */
    if (!fine || place->walk.is_done)
        place_done(agent);
    else
        agent_again(agent, 0);
}
