/* The inside of struct guest, shared by guest.c (what a lease's thread calls) and
 * guest_messages.c (what the agent says).
 */
#pragma once

#include "base/hash.h"
#include "worker/drives.h"
#include "worker/guest.h"

enum { GUEST_OUTPUT_MAX = 16 * 1024 * 1024, GUEST_OPS_MAX = 128 };

enum ending { ENDING_NONE, ENDING_BY_LIMIT, ENDING_BY_CANCEL };

struct guest {
    struct worker *worker;
    struct lease *lease; /* NULL while it stands by */
    struct failure *failure;
    struct instance *instance;
    struct loop *loop;
    struct loop_source *socket, *process, *wake, *room;
    struct loop_timer *tick;
    int room_fd;
    struct template *origin;      /* of which it is a copy; NULL: started on its own */
    int held_layers, held_bundle; /* locks that keep them on this host, or -1 */
    struct drives drives;         /* of a machine */
    struct channel channel;
    struct arena arena;
    struct error broken; /* the channel's or engine's end, when is_broken */
    bool is_broken, has_hello, is_set_up, is_started, is_quiesced, is_done;
    bool is_drained;     /* everything queued is on the wire */
    bool has_secrets;    /* the agent has all that were sent */
    bool awaits_secrets; /* a launched program is getting some */
    bool awaits_preload, has_preloaded;
    struct str preload_error; /* empty: none */
    const char *preloaded;    /* the module that its Node has imported, or NULL */
    bool is_frozen, is_thawed, is_paused, is_reestablished, has_consumed;
    bool is_refused;   /* the freeze: the program was busy */
    char refusal[200]; /* and with what */
    bool is_held;      /* frozen and not thawed since */
    bool is_hold_answered, is_hold_refused, has_gone_on;
    bool is_still;  /* everything in the sandbox, until guest_let_go */
    bool is_asleep; /* a copy before its first instruction (template_wake) */
    uint64_t generation;
    int64_t reestablished_ms; /* wall time that it was told last */
    bool is_stirred;          /* something happened that whoever watches should look at */
    bool outlives_stop;       /* the end of the worker is told to who watches, not obeyed */
    bool is_layer;            /* the agent has mount points of its own to take away at the end */
    int64_t pinged_ms, ponged_ms;
    uint64_t number;

    const struct guest_server *server; /* of many programs; NULL: it has one of its own */

    uint32_t program;
    struct guest_listener listener;
    const volatile bool *abort; /* the program's */
    size_t owed[GUEST_STREAMS]; /* credit withheld */
    struct str payload;
    uint16_t payload_stream, outcome_stream;
    uint64_t outcome_len;
    bool has_digest;
    uint8_t outcome_digest[BLAKE2B_LEN];
    struct buf outcome_bytes;
    struct guest_result result;

    struct guest_capture *capture; /* under way, or NULL */
    struct guest_place *place;     /* the same */
    struct guest_relay *relays;
    uint32_t n_relayed; /* of all times */
    struct guest_base base;

    struct guest_op *first_op; /* asked and not taken yet, in order */
    size_t n_ops;

    enum ending ending;
    bool kill_sent;
    int64_t kill_ms, limit_ms;
};

uint16_t guest_stream_number(uint32_t program, enum guest_stream which);
uint16_t guest_payload_number(uint32_t program);

/* The answer to a PRELOAD; and what a copy has from its template. */
void guest_take_preloaded(struct guest *guest, const struct message_preloaded *preloaded);
void guest_set_preloaded(struct guest *guest, const char *module);

/* A capture under way: what the agent says about it. */
bool guest_capture_data(struct guest *guest, uint16_t stream, struct str bytes, bool is_end,
                        struct error *err) MUST_USE;
void guest_capture_end(struct guest *guest, const struct message_capture_end *end);
void guest_capture_refused(struct guest *guest, const struct message_error *error);
bool guest_captures(const struct guest *guest, uint16_t stream);

/* Files on their way into the workspace: as many as may be sent now; what the agent says of it. */
bool guest_place_pump(struct guest *guest, struct error *err) MUST_USE;
void guest_place_end(struct guest *guest);
void guest_place_refused(struct guest *guest, const struct message_error *error);

bool guest_send(struct guest *guest, enum message_type type, const void *message,
                struct error *err) MUST_USE;

/* Turns the loop until *flag, the deadline (boot time), or the end of it all. */
bool guest_wait_for(struct guest *guest, const bool *flag, int64_t until_ms,
                    struct error *err) MUST_USE;

/* How long a guest that is well may take for what takes others so long at most; the boot time of it
 * from now. */
int64_t guest_patience(const struct guest *guest, int64_t ms);
int64_t guest_until(const struct guest *guest, int64_t ms);

/* False. The failure a call reports when the guest itself has not said one. */
bool guest_fail(struct guest *guest, const char *stage, const char *kind, const struct error *err);

/* The end of the channel or the engine: every later call reports it. */
void guest_break_off(struct guest *guest, const struct error *err);

/* False: quarantined. The guest has no instance after it either way. */
bool guest_end_instance(struct guest *guest);

/* Puts what is queued on the wire. */
void guest_flush(struct guest *guest);
struct str guest_keep(struct guest *guest, struct str text);

/* A new one: what tells a sandbox from every other. */
void guest_make_identity(char boot_id[ID_TEXT], char machine_id[33]);

/* A guest without a sandbox yet, and the callbacks of one that has a channel. */
struct guest *guest_make(struct worker *worker, struct lease *lease, struct failure *failure);
bool guest_watch_channel(struct guest *guest, struct error *err) MUST_USE;
/* Also fills spec->drives, for engines that start from them. */
bool guest_hold_files(struct guest *guest, const struct engine *engine, struct sandbox_spec *spec,
                      struct error *err) MUST_USE;
void guest_release_files(struct guest *guest);

/* Loop callbacks; arg is the guest. */
loop_ready guest_on_socket, guest_on_process_end;
