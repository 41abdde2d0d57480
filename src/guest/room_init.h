/* The init of the room: PID 1 of the namespaces that execs and terminals of a sandbox share.
 *
 * It starts programs as the agent orders, reaps them and whatever they leave behind, and tells how
 * each ended. What a program started and left stays: it ends with the room.
 */
#pragma once

#include <stdbool.h>

/* `helmr-guest --init 0`; descriptors as for init_main, but fd 3 is one of room_wire.h. */
int room_main(bool has_freezer);
