/* The agent as the first process of a kernel of its own: what an OCI runtime does elsewhere.
 *
 * The kernel's file systems, the modules, the channel, the disks, the network. Only what is needed
 * to speak to the host is fatal here; what fails later is told to it as the answer to SETUP.
 */
#pragma once

#include "guest/kernel.h"
#include "guest/transport.h"

struct boot {
    struct kernel_line line;
    struct transport transport;
    char *command_line; /* what the line borrows from */
    struct error fault; /* why no sandbox can be made here; text is empty when one can */
};

/* Until the host can be spoken to. */
bool boot_begin(struct boot *boot, struct error *err) MUST_USE;

/* Disks and network, into boot->fault when they fail. */
void boot_finish(struct boot *boot);

/* The end of the machine. */
_Noreturn void boot_end(void);
