/* CPUID without a trap, for gVisor.
 *
 * Where the processor can fault on CPUID gVisor asks for it, so that its kernel answers in place of
 * the processor. The answers are the same, since it has the features of its host, but each costs a
 * stop of the program: the C library of a usual image asks about ninety times before main. gVisor
 * goes on without the fault where it is not to be had, as on most machines in clouds.
 */
#pragma once

#include <stdbool.h>

/* For this process and all that come of it, the processor itself answers CPUID from now on. Safe
 * between fork and exec. False where filters are not allowed; then it is only slower. */
bool cpuid_untrap(void);
