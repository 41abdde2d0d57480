/* Links, addresses, routes and neighbours, by netlink, in the namespace of the calling
 * thread.
 *
 * The root end of every sandbox's link is hx<n>, n being its slot; its hardware address
 * carries the worker's tag, so that a link is known as ours without any file.
 */
#pragma once

#include <net/if.h>
#include <stdint.h>

#include "base/error.h"

struct mnl_socket;

enum { MAC_LEN = 6 };

struct link_end {
    const char *name;
    const uint8_t *mac; /* NULL: the kernel chooses */
    int netns_fd;       /* -1: the calling thread's namespace */
};

/* A socket of the calling thread's namespace; the operations below use it. */
bool link_open(struct mnl_socket **socket, struct error *err) MUST_USE;
void link_close(struct mnl_socket **socket);

bool link_make_pair(struct mnl_socket *socket, const struct link_end *near,
                    const struct link_end *far, struct error *err) MUST_USE;

/* A tap, which goes with the last descriptor of it. Its frames carry the header of virtio-net. */
bool link_make_tap(struct mnl_socket *socket, const struct link_end *end, int *fd,
                   struct error *err) MUST_USE;

/* Lets the user open the tap by its name, since the descriptor is given up: from now on it goes
 * with its namespace. */
bool link_leave_tap(int *fd, uint32_t user, struct error *err) MUST_USE;

bool link_up(struct mnl_socket *socket, const char *name, bool is_up, struct error *err) MUST_USE;

/* Addresses are in host byte order. */
bool link_address(struct mnl_socket *socket, const char *name, uint32_t address, int prefix,
                  struct error *err) MUST_USE;
bool link_default_route(struct mnl_socket *socket, uint32_t gateway, struct error *err) MUST_USE;
bool link_neighbour(struct mnl_socket *socket, const char *name, uint32_t address,
                    const uint8_t mac[MAC_LEN], struct error *err) MUST_USE;

/* The hardware address of the root end of slot n under this tag. */
void link_root_mac(const char *tag, int number, uint8_t mac[MAC_LEN]);

/* Removes hx<n> when it is ours: the tag in its address, and the ifindex when one is known.
 * Another's link under that name is left alone, and counts as absent. */
bool link_remove(const char *tag, const char *name, const char *identity,
                 struct error *err) MUST_USE;
void link_remove_strays(const char *tag);
