/* What the machines of a worker that is not root may send, where their network is open.
 *
 * QEMU's own network reaches whatever its process can: the host's loopback and its neighbours too.
 * So each frame that a guest sends goes through this worker first, which lets on only what may go
 * out by the same policy that root has rules for: IPv4 to public addresses, names asked of the
 * gateway, ARP. What does not come back is not sent; when the worker is gone nothing is.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/net/policy.h"
#include "engine/service.h"

enum { FRAME_MAX = 4096 + 65536, FRAME_HEAD = 4 };

/* Whether a frame, from its Ethernet addresses on, may leave. */
bool frame_may_pass(const struct policy *policy, const uint8_t *frame, size_t len);

struct frames;

/* The ends that the machine gets: `out` is where it writes, `in` where it reads. Both the
 * caller's. The policy is borrowed. */
bool frames_open(struct service *service, const struct policy *policy, struct frames **frames,
                 int *out, int *in, struct error *err) MUST_USE;
void frames_close(struct frames *frames); /* accepts NULL */

/* Whether somebody answers there within the time: a service that tells who asks its secrets. */
bool address_answers(uint32_t address, uint16_t port, int timeout_ms);
#define METADATA_ADDRESS 0xa9fea9feU /* 169.254.169.254 */
