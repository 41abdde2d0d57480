/* What `helmr up` does once its server answers: a login for the invoking user, and the lines that
 * say where the console is and which engine runs tasks. A thread of its own, so that the
 * supervisor never waits.
 */
#pragma once

#include <stdbool.h>

struct greeter {
    const char *socket_url; /* unix:… of the server */
    const char *url;        /* where its listener can be reached */
    const char *public_url;
    bool saves_login, has_worker;
    const char *seed_dir; /* where the project of examples is written; NULL: none is wanted */
    void (*on_ready)(void *arg); /* on this thread, once the server is ready */
    void *on_ready_arg;
    volatile bool is_over; /* set by the supervisor: end soon */
};

void *greeter_main(void *arg); /* a struct greeter */
