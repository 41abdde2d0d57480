/* The adapter's link: fd 3 of a task or check, frames between agent and Node process.
 *
 * The other end is in the hands of user code, so every frame is bounded, decoded, checked
 * against the state and encoded anew; nothing is passed on unread. It is read only while the
 * host's channel has room.
 */
#pragma once

#include "guest/park.h"
#include "guest/program.h"

enum { ADAPTER_OPS_MAX = 128, ADAPTER_BLOB_MAX = 16 << 20 };

enum adapter_state { ADAPTER_STARTING, ADAPTER_WAITING, ADAPTER_RELEASED, ADAPTER_OVER };

struct adapter {
    struct program *program;
    struct channel channel;
    int fd;
    struct loop_source *source;
    unsigned watched;
    enum adapter_state state;
    bool has_loaded, has_ended;
    uint64_t n_ops;
    uint16_t payload_stream;                 /* the host's, 0: none */
    uint64_t payload_left, payload_unstored; /* still to come; queued here, not credited */
    uint16_t output_stream;                  /* ours to the host, 0: none */
    uint64_t output_left;
    uint64_t preload_id;                /* the host's PRELOAD that is not answered, 0: none */
    struct message_secrets_ready ready; /* for the host, once no variable is left in our buffers */
    bool owes_ready;
    struct park park;
};

/* Takes both descriptors: the link and the barrier. */
struct adapter *adapter_create(struct program *program, int fd, int barrier_fd);
void adapter_destroy(struct adapter *adapter); /* accepts NULL */

void adapter_release(struct adapter *adapter, const struct message_release *release);
void adapter_cancel(struct adapter *adapter, const struct message_cancel *cancel);
void adapter_result(struct adapter *adapter, const struct message_op_result *result);
bool adapter_payload(struct adapter *adapter, struct str bytes, bool is_end,
                     struct error *err) MUST_USE;

/* An operation has its answer, by whatever way. */
void adapter_settled(struct adapter *adapter);

void adapter_park(struct adapter *adapter, const struct message_a_park *park);

/* A new state for its random numbers while it waits for its release; A_RESEEDED answers. */
void adapter_reseed(struct adapter *adapter, struct str entropy);

/* What it may do ahead while it waits for its release; A_PRELOADED answers, once. */
void adapter_preload(struct adapter *adapter, const struct message_preload *preload);

/* A process that breaks the protocol has failed like one that threw; it is not believed again. */
void adapter_give_up(struct adapter *adapter, const struct error *err);

/* One of its environment, before the release. */
void adapter_variable(struct adapter *adapter, struct str name, struct str value);

/* Sends `ready` to the host when every variable is on its way. */
void adapter_owe(struct adapter *adapter, const struct message_secrets_ready *ready);

/* Flushes, gives credit back, decides what to watch. */
void adapter_settle(struct adapter *adapter);

/* Whether nothing it said is still on its way to the host. */
bool adapter_is_relayed(const struct adapter *adapter);
