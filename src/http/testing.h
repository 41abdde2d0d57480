/* For tests of the server: one on loopback in this process, and raw sockets to talk to it.
 *
 * Every read has a deadline of ten seconds, so a test that waits for nothing fails.
 */
#pragma once

#include <stdatomic.h>

#include "http/server.h"

/* Set before the start: the port speaks TLS, the unix socket never does. */
extern struct tls *testing_tls;

/* Starts with these routes on any port and on unix_path; what *tweak leaves 0 is the default. */
void testing_start(const struct route *routes, size_t n, const struct http_config *tweak);
void testing_stop(void);
/* Asks for the end without waiting; testing_join waits for the loop, testing_stop for all. */
void testing_begin_stop(int64_t grace_ms);
void testing_join(void);

extern struct http_server *testing_server;
extern char testing_unix_path[64];
extern int testing_port;
extern _Atomic int testing_authorized, testing_answered, testing_last_status;

/* Waits until that many answers were reported; false after ten seconds. */
bool testing_answers_reach(int n);

int testing_dial(void);
int testing_dial_unix(void);
/* With a receive buffer so small that a big answer cannot hide in it. */
int testing_dial_narrow(void);

bool testing_say(int fd, struct str bytes);
/* n chunks of 64 KiB that no compression helps, and the last one; what /upload answers to them. */
bool testing_say_chunks(int fd, int n, char want[64]);

struct reply {
    int status;
    char head[4096];
    char body[64 * 1024];
    size_t len; /* of the body, also of what did not fit */
};

/* Reads one whole answer; false when the connection ends before. */
bool testing_hear(int fd, struct reply *reply);
bool testing_hear_headless(int fd, struct reply *reply); /* the answer to a HEAD */
/* Reads until `text` has been seen; false at the end of the connection. */
bool testing_hear_until(int fd, const char *text);
bool testing_is_closed(int fd); /* drops what comes before the end */

/* The value of a header line, or "". */
const char *reply_header(const struct reply *reply, const char *name);

/* One request on a new connection; the status, or -1. */
int testing_ask(const char *request, struct reply *reply);
