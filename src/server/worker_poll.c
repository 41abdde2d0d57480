/* The poll: what a worker waits on. With something to accept it is a claim, parked on its
 * group's topic, where each wake-up is the turn of who waits longest; with nothing it is an ear for
 * messages, parked on the worker's own. */
#include <string.h>

#include "base/time.h"
#include "server/caller.h"
#include "server/process_store.h"
#include "server/queue.h"
#include "server/worker_plane.h"
#include "store/queries.h"

/* ANSWERS_MAX: what all messages of one answer may carry. */
enum {
    GRANTS_MAX = 16,
    WAIT_MAX_MS = 25 * 1000,
    MESSAGES_MAX = 64,
    ANSWERS_MAX = 4 * 1024 * 1024,
};

struct poll {
    struct call *call;
    struct wire_poll wanted;
    struct claim claim;
    struct wire_message messages[MESSAGES_MAX];
    size_t n_messages;
    int64_t cursor; /* of the last message that was looked at */
    bool is_active;
    int64_t oldest_message; /* that is kept; 0: none */
};

static bool accepts(const struct wire_poll *wanted, struct str kind)
{
    for (size_t i = 0; i < wanted->accept.n; i++)
        if (str_equal(((const struct str *)wanted->accept.items)[i], kind))
            return true;
    return false;
}

static bool is_known(const struct wire_poll *wanted, struct str lease_id)
{
    for (size_t i = 0; i < wanted->known.n; i++)
        if (str_equal(((const struct str *)wanted->known.items)[i], lease_id))
            return true;
    return false;
}

/* Asked for, and one of the worker's roles as it gave them when it became active. */
static bool may_take(struct poll *poll, struct str roles, const char *needed, const char *kind)
{
    struct arena *arena = poll->call->arena;
    struct str role;

    for (size_t i = 0; json_find_text(roles, arena_printf(arena, "%zu", i), arena, &role); i++)
        if (str_equal(role, str_of(needed)))
            return accepts(&poll->wanted, str_of(kind));
    return false;
}

static bool find_worker(struct poll *poll, struct tx *tx, struct error *err)
{
    struct call *call = poll->call;
    const struct caller *caller = caller_of(call);
    struct rows rows;

    if (!STORE(tx, &worker_get, call->arena, &rows, err, V_TEXT(caller->id)))
        return false;
    struct str state = rows.n_rows ? row_str(&rows, 0, WORKER_GET_STATE) : STR("lost");
    if (rows.n_rows == 0 || row_int(&rows, 0, WORKER_GET_EPOCH) != poll->wanted.epoch ||
        caller->epoch != poll->wanted.epoch || str_equal(state, STR("lost")) ||
        str_equal(state, STR("disabled")))
        return error_set(err, ERR_EPOCH_SUPERSEDED, "this process of the worker is over");
    poll->is_active = str_equal(state, STR("active"));
    poll->oldest_message = row_int(&rows, 0, WORKER_GET_OLDEST_MESSAGE);
    struct str roles = row_str(&rows, 0, WORKER_GET_ROLES);
    poll->claim = (struct claim){
        .server = server_of(call),
        .arena = call->arena,
        .worker_id = caller->id,
        .group_id = row_text(&rows, 0, WORKER_GET_GROUP_ID),
        .arch = row_text(&rows, 0, WORKER_GET_ARCH),
        .epoch = poll->wanted.epoch,
        .compat = row_text(&rows, 0, WORKER_GET_COMPAT),
        .key_id = row_text(&rows, 0, WORKER_GET_CHECKPOINT_KEY_ID),
        .grade = row_int(&rows, 0, WORKER_GET_GRADE),
        .has_rules = queue_worker_has_rules(row_str(&rows, 0, WORKER_GET_CAPABILITIES)),
        .runs = may_take(poll, roles, "run", "run"),
        .resumes = may_take(poll, roles, "run", "resume"),
        .builds = may_take(poll, roles, "build", "build"),
        .mounts = may_take(poll, roles, "run", "mount"),
        .room = poll->wanted.room,
        .warm = &poll->wanted.warm,
        .grants = arena_array(call->arena, GRANTS_MAX, sizeof(struct wire_grant)),
        .max_grants = GRANTS_MAX,
    };
    return true;
}

/* A person's reason may be longer than a worker reads; it is cut between characters. */
static struct str cut(struct str text)
{
    if (text.len <= WIRE_TEXT_MAX)
        return text;
    text.len = WIRE_TEXT_MAX;
    while (text.len > 0 && ((unsigned char)text.ptr[text.len] & 0xc0) == 0x80)
        text.len--;
    return text;
}

/* About a run's end or wait, or for the worker itself. */
static void read_message(struct str body, struct arena *arena, struct wire_message *message)
{
    struct str force = STR("false");

    json_find_text(body, "reason", arena, &message->reason);
    message->reason = cut(message->reason);
    json_find_raw(body, "force", arena, &force);
    message->force = str_equal(force, STR("true"));
    json_find_text(body, "wait_id", arena, &message->wait_id);
    json_find_raw(body, "decision", arena, &message->decision);
}

/* What is in a sandbox, nearly always a mount's. */
static bool is_of_mount(struct str type)
{
    static const struct str kinds[] = {STR("process_"), STR("mount_"), STR("file_"), STR("relay_"),
                                       STR("workspace_")};

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (type.len >= kinds[i].len && memcmp(type.ptr, kinds[i].ptr, kinds[i].len) == 0)
            return true;
    return false;
}

/* Of a mount: its body is kept by the table, with the data of input on a line of its own.
 * *is_wanted is false when its time is over. */
static bool read_mount_message(struct poll *poll, struct tx *tx, struct str body, struct str type,
                               struct wire_message *message, bool *is_wanted, struct error *err)
{
    struct str head;

    *is_wanted = true;
    if (!str_split(&body, '\n', &head) || !json_read(head, wire_message_body_fields, message,
                                                     sizeof *message, poll->call->arena, err))
        return false;
    if (body.len > 0)
        message->data = body;
    return !str_equal(type, STR("process_start")) ||
           process_fill_start(server_of(poll->call), tx, message, poll->call->arena, is_wanted,
                              err);
}

static bool find_messages(struct poll *poll, struct tx *tx, struct error *err)
{
    struct arena *arena = poll->call->arena;
    struct rows rows;
    size_t n_bytes = 0;

    poll->cursor = poll->wanted.cursor;
    if (!STORE(tx, &worker_messages_after, arena, &rows, err, V_TEXT(poll->claim.worker_id),
               V_INT(poll->wanted.cursor)))
        return false;
    for (size_t i = 0; i < rows.n_rows && i < MESSAGES_MAX && n_bytes < ANSWERS_MAX; i++) {
        struct str body = row_str(&rows, i, WORKER_MESSAGES_AFTER_BODY);
        struct str type = row_str(&rows, i, WORKER_MESSAGES_AFTER_TYPE);
        struct wire_message *message = &poll->messages[poll->n_messages];
        bool is_wanted = true;

        *message = (struct wire_message){0};
        poll->cursor = row_int(&rows, i, WORKER_MESSAGES_AFTER_CURSOR);
        if (!is_of_mount(type))
            read_message(body, arena, message);
        else if (!read_mount_message(poll, tx, body, type, message, &is_wanted, err))
            return false;
        message->cursor = poll->cursor;
        message->lease_id = row_str(&rows, i, WORKER_MESSAGES_AFTER_LEASE_ID);
        message->type = type;
        poll->n_messages += is_wanted;
        n_bytes += body.len;
    }
    return true;
}

/* Leases given out in an answer that never arrived. */
static bool find_unheard(struct poll *poll, struct tx *tx, struct error *err)
{
    struct claim *claim = &poll->claim;
    struct rows rows;

    if (!STORE(tx, &leases_unheard, claim->arena, &rows, err, V_TEXT(claim->worker_id),
               V_INT(claim->epoch)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++) {
        struct str id = row_str(&rows, i, LEASES_UNHEARD_ID);

        if (!is_known(&poll->wanted, id) && !dispatch_grant(claim, tx, id.ptr, err))
            return false;
    }
    return true;
}

static bool forget_acknowledged(struct poll *poll, struct error *err)
{
    struct server *server = server_of(poll->call);
    struct rows rows;
    AUTO_TX tx = NULL;

    /* A write only when there is something to forget: an idle poll must stay a read. */
    if (!poll->oldest_message || poll->oldest_message > poll->wanted.cursor)
        return true;
    return store_begin(server->store, &tx, err) &&
           STORE(tx, &worker_messages_forget, poll->call->arena, &rows, err,
                 V_TEXT(poll->claim.worker_id), V_INT(poll->wanted.cursor)) &&
           store_commit(&tx, err);
}

static bool look(struct poll *poll, struct error *err)
{
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(poll->call)->store, &tx, err) || !find_worker(poll, tx, err) ||
        !find_messages(poll, tx, err))
        return false;
    if (poll->wanted.accept.n == 0 || !poll->is_active)
        return true;
    return find_unheard(poll, tx, err) && dispatch_look(&poll->claim, tx, err);
}

static void write_answer(struct poll *poll, struct wire_poll_answer *answer)
{
    answer->grants = (struct json_list){poll->claim.grants, poll->claim.n_grants};
    answer->messages = (struct json_list){poll->messages, poll->n_messages};
    answer->cursor = poll->cursor;
}

/* Polls for runs and polls for builds do not stand in each other's way. */
static void wait_in_turn(struct poll *poll, struct response *res, int64_t wait_ms, bool comes_last)
{
    const struct claim *claim = &poll->claim;
    const char *topic = arena_printf(claim->arena, "g%s", claim->group_id);

    response_park_in_turn(res, &(struct response_turn){
                                   .topic = topic,
                                   .wait_ms = wait_ms,
                                   .line = (claim->runs || claim->resumes || claim->mounts) |
                                           claim->builds << 1,
                                   .comes_last = comes_last,
                               });
}

/* What it has just rejected it takes when nobody else does. */
static bool take_or_wait(struct poll *poll, struct response *res, bool *waits, struct error *err)
{
    struct call *call = poll->call;
    enum offer offer = poll->claim.offer;
    int64_t wait_ms = poll->wanted.wait_ms < WAIT_MAX_MS ? poll->wanted.wait_ms : WAIT_MAX_MS;
    bool may_wait = poll->n_messages == 0 && !call->is_last_try && wait_ms > 0;
    bool comes_last = offer == OFFER_BACK && may_wait && !call->is_last_turn;

    if ((offer == OFFER_WORK || offer == OFFER_BACK) && !comes_last &&
        !dispatch_claim(&poll->claim, err))
        return false;
    *waits = may_wait && poll->claim.n_grants == 0;
    if (*waits && poll->wanted.accept.n == 0)
        response_park(res, arena_printf(call->arena, "w%s", poll->claim.worker_id), wait_ms);
    else if (*waits)
        wait_in_turn(poll, res, wait_ms, comes_last);
    if (poll->claim.offer == OFFER_NONE)
        response_end_turn(res);
    return true;
}

bool worker_poll_post(struct call *call, struct response *res, struct error *err)
{
    struct poll *poll = arena_alloc(call->arena, sizeof *poll);
    struct wire_poll_answer answer;
    bool waits;

    poll->call = call;
    if (!worker_read(call, wire_poll_fields, &poll->wanted, sizeof poll->wanted, err) ||
        !look(poll, err) || !forget_acknowledged(poll, err) ||
        !take_or_wait(poll, res, &waits, err))
        return false;
    if (waits)
        return true;
    write_answer(poll, &answer);
    return worker_answer(res, wire_poll_answer_fields, &answer, err);
}
