/* DNS messages: what a sandbox may ask, and what of an answer it may hear.
 *
 * Pure: no sockets. A name is parsed once into canonical labels (printable ASCII, lower
 * case, at most 253 characters); everything afterwards compares those. An answer is
 * never passed on but written anew from the records that follow from the question.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

enum {
    DNS_NAME_MAX = 255, /* on the wire */
    DNS_QUERY_MAX = 1024,
    DNS_MESSAGE_MAX = 16384,
    DNS_UDP_MAX = 1232,
    DNS_TTL_MAX = 300,
    DNS_HEADER_LEN = 12,
};

enum dns_code {
    DNS_OK = 0,
    DNS_FORMAT_ERROR = 1,
    DNS_SERVER_FAILURE = 2,
    DNS_NO_NAME = 3,
    DNS_NOT_IMPLEMENTED = 4,
    DNS_REFUSED = 5,
    DNS_DROP = 256, /* not worth an answer */
};

enum dns_type { DNS_A = 1, DNS_CNAME = 5, DNS_OPT = 41, DNS_AAAA = 28 };

struct dns_name {
    uint8_t wire[DNS_NAME_MAX]; /* lower-case labels with lengths, ended by 0 */
    size_t len;
};

struct dns_question {
    uint16_t id, type;
    bool wants_recursion, has_options;
    size_t room; /* the largest answer its sender takes over UDP */
    struct dns_name name;
    uint8_t asked[DNS_NAME_MAX + 4]; /* the question as it came, for the echo */
    size_t asked_len;
};

/* DNS_OK: the question may be asked upstream (or answered empty, for AAAA). */
enum dns_code dns_question_parse(struct str message, struct dns_question *question);

/* The query for the servers above: our id, our options, the canonical name. */
bool dns_query_write(const struct dns_question *question, uint16_t id, struct buf *out,
                     struct error *err) MUST_USE;

/* An answer without records. */
bool dns_answer_empty(const struct dns_question *question, enum dns_code code, struct buf *out,
                      struct error *err) MUST_USE;

typedef bool dns_blocks(const void *arg, uint32_t address);

struct dns_filter {
    dns_blocks *blocks;
    const void *arg;
};

enum dns_verdict { DNS_ANSWERED, DNS_TRUNCATED, DNS_NOT_OURS };

/* Reads an answer of the servers above and writes ours. DNS_TRUNCATED: ask again over TCP.
 * DNS_NOT_OURS: another id or question, or malformed; wait on. `room` 0: no limit (TCP). */
enum dns_verdict dns_answer_filter(struct str upstream, const struct dns_question *question,
                                   uint16_t id, const struct dns_filter *filter, size_t room,
                                   struct buf *out);
