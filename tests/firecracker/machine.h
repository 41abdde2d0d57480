/* The machine of the stand-in: what it was told to be, its memory, and what it saved.
 *
 * There is no processor. The "guest" is agent.c, whose whole state is a struct in the first page
 * of the machine's memory: what is lost of that memory on its way through a file is lost to it.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { DRIVES_MAX = 8, NETS_MAX = 4, PAGE = 4096, FAULTS_MAX = 16 };

enum phase { NOT_STARTED, RUNNING, PAUSED };

struct drive {
    char id[64], path[256];
    bool is_read_only;
    int64_t size;
    int fd;
};

struct net {
    char id[64], tap[16];
    int fd;
};

struct machine {
    enum phase phase;
    bool is_configured; /* something of a machine to be booted was told */
    bool is_broken;     /* a load failed half way, and nothing can be done with it any more */
    bool has_kernel, has_vsock, has_entropy, tracks_pages;
    int64_t vcpus, memory_mib, cid;
    char kernel[256], initrd[256], arguments[2048], vsock_path[100];
    struct drive drives[DRIVES_MAX];
    size_t n_drives;
    struct net nets[NETS_MAX];
    size_t n_nets;
    int vsock; /* the listener; -1: none */
    uint8_t *memory;
    bool *dirty; /* by page */
};

extern struct machine machine;

/* What it was told to do wrong: lines at the end of its own program, made by tests.
 *     #fault PUT /vsock hang|garbage|half|close|exit|refuse
 *     #fault - start exit      before the API is there
 *     #fault - agent absent    nobody ever listens inside
 *     #fault - vsock garbage   another answer than OK
 *     #fault - release old     knows no track_dirty_pages when loading
 *     #fault - changes lossy   a page that changed is not among the changes */
struct fault {
    char method[8], path[64], kind[16];
};

void faults_read(const char *program);
const char *fault_of(const char *method, const char *path); /* or NULL */

size_t machine_bytes(void);
void machine_touch(const void *at, size_t len); /* has been written */

/* devices.c: what a device needs of the host, opened when it is told. */
bool drive_open(struct drive *drive, struct error *err);
bool net_open(struct net *net, struct error *err);
bool vsock_open(struct error *err);

bool machine_boot(struct error *err);
bool machine_create_snapshot(const char *state, const char *memory, bool is_diff,
                             struct error *err);
bool machine_load(const char *state, const char *memory, bool tracks_pages, struct error *err);

/* rules.c: does what a request says, or says why not. */
bool rules_apply(const char *method, const char *path, struct str body, struct error *err);

/* agent.c */
void agent_boot(void);
void agent_disconnect(void);
int agent_accept(int connection); /* of the listener; -1: hung up */
void agent_turn(void);            /* reads and answers what is there */
int agent_fd(void);               /* -1: none */
