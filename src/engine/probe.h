/* Proof of an engine: a guest is really started, says hello and answers a ping; where the engine
 * saves, it is saved and another goes on where it was. All of it is destroyed again.
 */
#pragma once

#include "base/hash.h"
#include "engine/engine.h"
#include "engine/host_state.h"
#include "protocol/channel.h"

enum { PROBE_DIGEST = 2 * BLAKE2B_LEN };

/* The program is found the way process_start will find it. */
bool probe_binary_find(const char *name, char *path, size_t room);
bool probe_digest(const char *path, char hex[PROBE_DIGEST + 1], struct error *err) MUST_USE;

/* The verdict that it cannot be used, why, and what would cure it. */
void probe_fail(struct engine_result *result, const char *cure, const char *reason);

/* Until the agent of a guest that was started has said hello and answers. */
bool probe_meet(struct instance *instance, int64_t deadline_ms, struct error *err) MUST_USE;

/* Up to the moment it can be saved: the agent says nothing more. Who goes on from what was saved is
 * woken by the same nonce and answers. */
bool probe_pause(struct instance *instance, int64_t deadline_ms, uint8_t nonce[CHANNEL_NONCE_LEN],
                 struct error *err) MUST_USE;
bool probe_wake(struct instance *instance, int64_t deadline_ms,
                const uint8_t nonce[CHANNEL_NONCE_LEN], struct error *err) MUST_USE;

/* The spec says what the guest is made of; each of the attempts has as long as timeout_ms. */
bool probe_prove(struct engine_host *host, const struct engine *engine, struct sandbox_spec *spec,
                 int timeout_ms, struct engine_result *result, struct error *err) MUST_USE;
