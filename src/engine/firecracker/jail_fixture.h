/* A folder with a socket in it and somebody behind the socket, for tests of what talks to a jail.
 */
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/file.h"
#include "base/own.h"
#include "base/test.h"
#include "base/time.h"

enum { PATIENCE_MS = 120000 };

typedef void peer_main(int connection, const void *arg);

struct jail_fixture {
    char folder[40];
    int root, listener, self; /* self: a pidfd of this process, which does not end */
    peer_main *main;
    const void *arg;
    pthread_t thread;
    bool is_running;
};

static inline bool jail_fixture_open(struct jail_fixture *fixture)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *fixture = (struct jail_fixture){"/tmp/helmr-jail-XXXXXX", .root = -1, .listener = -1};
    if (!mkdtemp(fixture->folder))
        return false;
    fixture->root = open(fixture->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fixture->self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    fixture->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", fixture->folder);
    return fixture->root >= 0 && fixture->self >= 0 &&
           bind(fixture->listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
           listen(fixture->listener, 8) == 0;
}

/* Each connection is the peer's until it returns; ended by closing the listener. */
static inline void *jail_fixture_thread(void *arg)
{
    struct jail_fixture *fixture = arg;

    for (int fd; (fd = accept(fixture->listener, NULL, NULL)) >= 0; close(fd))
        fixture->main(fd, fixture->arg);
    return NULL;
}

static inline void jail_fixture_serve(struct jail_fixture *fixture, peer_main *main,
                                      const void *arg)
{
    fixture->main = main;
    fixture->arg = arg;
    fixture->is_running = pthread_create(&fixture->thread, NULL, jail_fixture_thread, fixture) == 0;
}

static inline void jail_fixture_close(struct jail_fixture *fixture)
{
    struct error err = {0};

    (void)shutdown(fixture->listener, SHUT_RDWR);
    if (fixture->is_running)
        pthread_join(fixture->thread, NULL);
    auto_close(&fixture->listener);
    auto_close(&fixture->root);
    auto_close(&fixture->self);
    if (!folder_remove(fixture->folder, &err))
        printf("# %s\n", err.text);
}
