#include "guest/transport.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"

#define PORT_NAME "helmr.channel"

enum {
    PORT_PATH_MAX = 512,
    NAME_MAX_LEN = 128,
    APPEAR_MS = 10000,
    TICK_MS = 2,
    FD_FIRST = 10, /* out of the way of 0 to 2 and of programs */
};

static bool port_is(const char *ports, const char *port, const char *name)
{
    char path[PORT_PATH_MAX];
    AUTO_FREE char *text = NULL;
    struct error ignored;

    snprintf(path, sizeof path, "%s/%s/name", ports, port);
    if (!file_read(path, NAME_MAX_LEN, &text, &ignored))
        return false;
    text[strcspn(text, "\n")] = '\0';
    return strcmp(text, name) == 0;
}

bool transport_find_port(const char *ports, const char *name, char device[64], struct error *err)
{
    DIR *folder = opendir(ports);
    bool is_found = false;

    if (!folder)
        return error_set(err, ERR_NOT_FOUND, "there is no serial port");
    for (const struct dirent *entry; !is_found && (entry = readdir(folder));) {
        is_found = entry->d_name[0] != '.' && strlen(entry->d_name) < 32 &&
                   port_is(ports, entry->d_name, name);
        if (is_found)
            snprintf(device, 64, "/dev/%.32s", entry->d_name);
    }
    closedir(folder);
    return is_found || error_set(err, ERR_NOT_FOUND, "no serial port is named %s", name);
}

/* The port comes to be by messages of the device, after its driver. */
static bool open_port(int *fd, struct error *err)
{
    char device[64];

    for (int waited = 0; waited < APPEAR_MS; waited += TICK_MS) {
        if (transport_find_port("/sys/class/virtio-ports", PORT_NAME, device, err)) {
            *fd = open(device, O_RDWR | O_NONBLOCK | O_CLOEXEC);
            if (*fd >= 0)
                return true;
            if (errno != ENOENT)
                return error_errno(err, "open %s", device);
        }
        poll(NULL, 0, TICK_MS);
    }
    return false;
}

/* Without a host the port says that it has ended, at once and again: only time helps. */
static void await_host(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};

    while (poll(&ready, 1, -1) < 0 || !(ready.revents & POLLOUT) || ready.revents & POLLHUP)
        poll(NULL, 0, TICK_MS);
}

/* epoll takes each number once, and the two ways of the channel are watched apart. */
bool transport_take(struct transport *transport, int fd, struct error *err)
{
    AUTO_FD int in = fcntl(fd, F_DUPFD_CLOEXEC, FD_FIRST);
    AUTO_FD int out = fcntl(fd, F_DUPFD_CLOEXEC, FD_FIRST);

    close(fd);
    if (in < 0 || out < 0)
        return error_errno(err, "the channel");
    auto_close(&transport->in);
    auto_close(&transport->out);
    transport->in = take_fd(&in);
    transport->out = take_fd(&out);
    return true;
}

static bool open_serial(struct transport *transport, struct error *err)
{
    int fd;

    if (!open_port(&fd, err))
        return false;
    await_host(fd);
    return transport_take(transport, fd, err);
}

static bool listen_vsock(int *listener, struct error *err)
{
    const struct sockaddr_vm address = {.svm_family = AF_VSOCK,
                                        .svm_port = TRANSPORT_VSOCK_PORT,
                                        .svm_cid = VMADDR_CID_ANY};
    int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return error_errno(err, "a vsock socket");
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 4) != 0) {
        error_errno(err, "listening on vsock port %d", TRANSPORT_VSOCK_PORT);
        close(fd);
        return false;
    }
    *listener = fcntl(fd, F_DUPFD_CLOEXEC, FD_FIRST);
    close(fd);
    return *listener >= 0 || error_errno(err, "the vsock listener");
}

/* Programs in this guest may connect, too; only the host is listened to. */
static int accept_host(int listener)
{
    struct sockaddr_vm peer = {0};
    socklen_t len = sizeof peer;
    int fd = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0 && peer.svm_cid != VMADDR_CID_HOST) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool open_vsock(struct transport *transport, struct error *err)
{
    struct pollfd ready = {.events = POLLIN};

    if (!listen_vsock(&transport->listener, err))
        return false;
    ready.fd = transport->listener;
    for (;;) {
        int fd = accept_host(transport->listener);
        if (fd >= 0)
            return transport_take(transport, fd, err);
        poll(&ready, 1, -1);
    }
}

bool transport_open(struct transport *transport, enum transport_kind kind, struct error *err)
{
    *transport = (struct transport){.in = -1, .out = -1, .listener = -1};
    return kind == TRANSPORT_VSOCK ? open_vsock(transport, err) : open_serial(transport, err);
}

bool transport_accept(struct transport *transport)
{
    int fd = transport->listener < 0 ? -1 : accept_host(transport->listener);
    struct error ignored;

    return fd >= 0 && transport_take(transport, fd, &ignored);
}
