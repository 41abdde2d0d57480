/* The channel of a guest with its own kernel: a virtio-serial port, or a connection from the host
 * over vsock. Descriptors are non-blocking and close on exec.
 */
#pragma once

#include "base/error.h"
#include "guest/kernel.h"

enum { TRANSPORT_VSOCK_PORT = 5000 };

struct transport {
    int in, out;
    int listener; /* vsock: whoever connects later replaces the one before; else -1 */
};

/* Opens it and waits until the host is there: before that nothing could be said. */
bool transport_open(struct transport *transport, enum transport_kind kind,
                    struct error *err) MUST_USE;

/* The device of the port with this name, from a folder like /sys/class/virtio-ports.
 * ERR_NOT_FOUND when there is none. */
bool transport_find_port(const char *ports, const char *name, char device[64],
                         struct error *err) MUST_USE;

/* Takes a new connection of the host's, when there is one, in the place of the old. Others that
 * connect are sent away. Without a listener there is none. */
bool transport_accept(struct transport *transport);

/* Makes an open connection the channel; what was open before is closed. */
bool transport_take(struct transport *transport, int fd, struct error *err) MUST_USE;
