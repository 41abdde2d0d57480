/* Which engine a worker uses, for runs and for builds, from what was found out about engines.
 *
 * `auto` takes the first that was proved of firecracker with KVM, qemu with KVM and gvisor. What
 * is slow (a microVM without KVM) or weak (container) is taken by its name only, and an engine
 * that was named is never replaced by another one.
 */
#pragma once

#include <stddef.h>

#include "model/grade.h"

/* What trying an engine showed. */
struct engine_finding {
    enum engine_kind engine;
    bool proved;        /* a guest was started with it */
    bool accelerated;   /* and ran with KVM */
    const char *reason; /* why it was not proved, in words */
};

enum engine_step {
    ENGINE_TRY,  /* find out about this one, and ask again */
    ENGINE_TAKE, /* this one it is */
    ENGINE_NONE, /* no engine can be used; the reason says why */
};

struct engine_choice {
    enum engine_step step;
    enum engine_kind engine; /* to try or to take */
    char reason[1024];       /* why this one was taken, or none */
};

/* "auto" or the name of an engine; for builds also "auto", by which they have the engine of runs
 * where it can build. */
bool engine_wish_is_valid(const char *wanted);

/* Builds keep what a sandbox wrote in a folder of the host. A machine has disks of its own, and
 * QEMU's are asked to send it. */
bool engine_can_build(enum engine_kind engine);

void engine_choose(const char *wanted, const struct engine_finding *findings, size_t n,
                   struct engine_choice *choice);

/* After the engine of runs was taken. Beside machines root has something faster to build with;
 * nobody else has. */
void engine_choose_builder(const char *wanted, enum engine_kind runs, bool is_root,
                           const struct engine_finding *findings, size_t n,
                           struct engine_choice *choice);
