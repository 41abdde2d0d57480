#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/own.h"
#include "machine.h"

bool drive_open(struct drive *drive, struct error *err)
{
    struct stat status;

    drive->fd = open(drive->path, (drive->is_read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    if (drive->fd < 0 || fstat(drive->fd, &status) < 0)
        return error_errno(err, "Unable to open the block device %s", drive->path);
    drive->size = status.st_size;

    /* Read-only is the host's word, too, not only the guest's. */
    if (drive->is_read_only && open(drive->path, O_WRONLY | O_CLOEXEC) >= 0)
        return error_set(err, ERR_INVALID, "%s could be written by the jailed process",
                         drive->path);
    return drive->size > 0 || error_set(err, ERR_INVALID, "%s is empty", drive->path);
}

/* The device that the jailer made, the tap that somebody left for this user. */
bool net_open(struct net *net, struct error *err)
{
    struct ifreq wanted = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};

    net->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (net->fd < 0)
        return error_errno(err, "Open tap device failed");
    snprintf(wanted.ifr_name, sizeof wanted.ifr_name, "%s", net->tap);
    return ioctl(net->fd, TUNSETIFF, &wanted) == 0 ||
           error_errno(err, "Open tap device failed: %s", net->tap);
}

bool vsock_open(struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    machine.vsock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", machine.vsock_path);
    if (machine.vsock < 0 ||
        bind(machine.vsock, (const struct sockaddr *)&address, sizeof address) < 0 ||
        listen(machine.vsock, 16) < 0)
        return error_errno(err, "Cannot bind the vsock backend %s", machine.vsock_path);
    return true;
}
