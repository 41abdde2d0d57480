/* A tree of files on its way into a workspace: a stream of its own, sent within its credit. */
#include "base/own.h"
#include "base/time.h"
#include "worker/guest_state.h"

/* Programs have the numbers from 9 on. */
enum { PLACE_STREAM = 1, RESET_UNFINISHED = 1 };

struct guest_place {
    guest_give_tree *give;
    void *arg;
    struct buf piece;
    size_t taken; /* of it, by the channel */
    bool is_given, is_over, has_failed;
    struct error failure;
};

static void fail(struct guest_place *place, const struct error *err)
{
    if (!place->has_failed)
        place->failure = *err;
    place->has_failed = place->is_over = true;
}

static bool send_piece(struct guest *guest, size_t room, struct error *err)
{
    struct guest_place *place = guest->place;
    size_t left = place->piece.len - place->taken, n = left < room ? left : room;
    struct str bytes = {place->piece.bytes + place->taken, n};

    place->taken += n;
    return channel_send_data(&guest->channel, PLACE_STREAM, bytes, place->is_given && n == left,
                             err);
}

/* False when there is no next piece. */
static bool next_piece(struct guest *guest, struct error *err, bool *fine)
{
    struct guest_place *place = guest->place;
    struct error why;

    place->piece.len = place->taken = 0;
    if (place->give(place->arg, &place->piece, &place->is_given, &why))
        return true;
    fail(place, &why);
    *fine = channel_reset(&guest->channel, PLACE_STREAM, RESET_UNFINISHED, err);
    return false;
}

bool guest_place_pump(struct guest *guest, struct error *err)
{
    struct guest_place *place = guest->place;
    bool fine = true;

    while (place && fine && !place->is_over &&
           channel_is_open(&guest->channel, PLACE_STREAM, CHANNEL_SENDS)) {
        size_t room = channel_send_room(&guest->channel, PLACE_STREAM);

        if (room == 0 || (place->is_given && place->taken == place->piece.len))
            return true;
        if (place->taken == place->piece.len && !next_piece(guest, err, &fine))
            return fine;
        fine = send_piece(guest, room, err);
    }
    return fine;
}

void guest_place_end(struct guest *guest)
{
    if (guest->place)
        guest->place->is_over = true;
}

void guest_place_refused(struct guest *guest, const struct message_error *error)
{
    struct error err;

    if (!guest->place)
        return;
    error_set(&err, ERR_UNPROCESSABLE, "the files of the workspace cannot be placed: %.*s",
              (int)error->text.len, error->text.ptr);
    fail(guest->place, &err);
}

bool guest_place(struct guest *guest, const char *mark, guest_give_tree *give, void *arg,
                 size_t piece_max, int64_t until_ms, struct error *err)
{
    struct guest_place place = {.give = give, .arg = arg, .piece = {.max = piece_max}};
    struct message_place message = {++guest->number, PLACE_STREAM, guest->generation, str_of(mark)};

    if (!channel_open_tree(&guest->channel, PLACE_STREAM, CHANNEL_SENDS, err))
        return guest_fail(guest, "place", "agent_unhealthy", err);
    guest->place = &place;
    bool fine = guest_send(guest, MESSAGE_PLACE, &message, err) &&
                guest_wait_for(guest, &place.is_over, until_ms, err);
    guest->place = NULL;
    buf_finish(&place.piece);
    if (fine && place.has_failed) {
        *err = place.failure;
        fine = false;
    }
    return fine || guest_fail(guest, "place", "mount_failed", err);
}
