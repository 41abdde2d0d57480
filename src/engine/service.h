/* The host's one service thread: a loop for what must be answered while the worker is
 * busy with something else (engine output, DNS).
 */
#pragma once

#include "base/error.h"
#include "base/loop.h"

struct service;

bool service_create(struct service **service, struct error *err) MUST_USE;
void service_destroy(struct service *service);
struct loop *service_loop(struct service *service);

/* Runs the function on the service thread and waits for it. Never from that thread itself. */
void service_call(struct service *service, loop_fire *function, void *arg);
