/* The forwarder: one thread answers every sandbox on 198.18.0.1 port 53, UDP and TCP.
 *
 * Its sockets are opened inside each edge namespace; the servers above are asked from
 * the host's side. Per sandbox: 64 questions in flight, 50 a second, 8 connections.
 */
#pragma once

#include "engine/net/policy.h"
#include "engine/service.h"

struct dns_server;
struct dns_listener;

/* `servers`: "address[:port]", comma separated; NULL: those of /etc/resolv.conf. The policy must
 * outlive the server. */
bool dns_server_create(struct service *service, const char *servers, const struct policy *policy,
                       struct dns_server **server, struct error *err) MUST_USE;
/* Every listener must have been closed. */
void dns_server_destroy(struct dns_server *server);

bool dns_listener_open(struct dns_server *server, int edge_fd, struct dns_listener **listener,
                       struct error *err) MUST_USE;
void dns_listener_close(struct dns_listener *listener); /* accepts NULL */
