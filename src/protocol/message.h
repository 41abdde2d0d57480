/* Messages: one struct per row of messages.def, one table-driven encoder and decoder.
 *
 * A decoded message borrows text and bytes from the body it was decoded from and keeps
 * lists in the caller's arena. Nothing is allocated by a length a peer claims: fields are
 * bounded by the table and by the bytes that are really there.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

/* Who speaks. Host and guest share the channel; agent and adapter share fd 3. */
enum side { SIDE_HOST = 1, SIDE_GUEST = 2, SIDE_AGENT = 4, SIDE_ADAPTER = 8 };

enum { MESSAGE_PROTOCOL = 1, MESSAGE_ABI = 2, MESSAGE_BODY_MAX = 524288 };

/* SETUP.layout */
enum setup_layout { SETUP_LAYOUT_AGENT = 1, SETUP_LAYOUT_DIRECT = 2 };

/* LAUNCH.kind; task and check have an adapter on fd 3. Index mode runs as a check. */
enum program_kind {
    PROGRAM_TASK = 1,
    PROGRAM_EXEC = 2,
    PROGRAM_PTY = 3,
    PROGRAM_STEP = 4,
    PROGRAM_CHECK = 5,
    PROGRAM_DESKTOP = 6
};

/* SECRET.placement; its program is the one that gets it, 0 all of the sandbox. */
enum secret_placement { SECRET_IN_FILE = 1, SECRET_IN_DIRECTORY = 2, SECRET_IN_ENVIRONMENT = 3 };

enum { SECRETS_MAX = 64, SECRET_VALUE_MAX = 65536 };

/* OUTCOME.kind and A_OUTCOME.kind */
enum outcome_kind {
    OUTCOME_SUCCEEDED = 1,
    OUTCOME_FAILED = 2,
    OUTCOME_PAYLOAD_INVALID = 3,
    OUTCOME_OUTPUT_INVALID = 4
};

/* PAUSE.purpose */
enum pause_purpose { PAUSE_TEMPLATE = 1, PAUSE_CHECKPOINT = 2 };

/* OP_RESULT.status, RESUME.status and A_RESUME.status: the body is the answer, or {code, message}.
 */
enum op_status { OP_OK = 0, OP_FAILED = 1 };

/* LOG.level, A_LOG.level and AGENT_LOG.level */
enum message_level { LEVEL_DEBUG = 0, LEVEL_INFO = 1, LEVEL_WARN = 2, LEVEL_ERROR = 3 };

struct str_list {
    const struct str *items;
    size_t n;
};

enum message_type {
#define MESSAGE(NAME, name, number, senders, limit) MESSAGE_##NAME = (number),
#include "protocol/messages.def"
};

#define MESSAGE_C_U32   uint32_t
#define MESSAGE_C_U64   uint64_t
#define MESSAGE_C_TEXT  struct str
#define MESSAGE_C_BYTES struct str
#define MESSAGE_C_LIST  struct str_list

#define MESSAGE(NAME, name, number, senders, limit)                    struct message_##name {
#define FIELD(message, number, field, kind, presence, min, max, items) MESSAGE_C_##kind field;
#define END(name) \
    }             \
    ;
#include "protocol/messages.def"

struct message {
    enum message_type type;
    union {
#define MESSAGE(NAME, name, number, senders, limit) struct message_##name name;
#include "protocol/messages.def"
    };
};

enum field_kind { FIELD_U32 = 1, FIELD_U64 = 2, FIELD_BYTES = 3, FIELD_TEXT = 4, FIELD_LIST = 5 };

struct message_field {
    const char *name;
    uint8_t number;
    enum field_kind kind;
    bool is_required;
    size_t offset;
    size_t min, max;  /* length of a text, of bytes, or of one element */
    size_t max_items; /* lists only */
};

struct message_info {
    const char *name;
    enum message_type type;
    unsigned senders; /* bits of enum side */
    size_t limit;     /* of the body */
    size_t size;      /* of the struct */
    const struct message_field *fields;
    size_t n_fields;
};

/* NULL for a number that is no message. */
const struct message_info *message_info(unsigned number);

/* Appends the body of a message struct; `message` points to struct message_<name>.
 * ERR_INVALID when a field breaks its own table: a sender is held to what a receiver checks. */
bool message_encode(enum message_type type, const void *message, struct buf *out,
                    struct error *err) MUST_USE;

/* Body to struct. `message` is struct message_<name>, or &whole->hello and so on. */
bool message_decode(enum message_type type, struct str body, struct arena *arena, void *message,
                    struct error *err) MUST_USE;

/* The same codec for a struct that is no message but has such a table: formats on disk. */
bool fields_encode(const struct message_info *info, const void *message, struct buf *out,
                   struct error *err) MUST_USE;
bool fields_decode(const struct message_info *info, struct str body, struct arena *arena,
                   void *message, struct error *err) MUST_USE;

/* UTF-8 without NUL, surrogates or overlong forms. */
bool message_text_is_valid(struct str text);
