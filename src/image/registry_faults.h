/* For tests: a registry on loopback that can do on command what a real one does on bad days.
 *
 * It serves an image's blobs from a local store, one thread per connection, one answer each. What
 * is pushed to it is hashed and counted, not kept.
 */
#pragma once

#include <pthread.h>

#include "base/arena.h"
#include "image/image.h"

enum fault {
    FAULT_NONE,
    FAULT_CORRUPT,    /* one bit of the layer is another */
    FAULT_STALL,      /* half of the layer, then silence */
    FAULT_MUTE,       /* silence instead of a manifest */
    FAULT_DROP,       /* the first answer with the layer, or taking of it, ends half-way */
    FAULT_DROP_PLAIN, /* the same, and Range is not known */
    FAULT_DROP_EVER,  /* every answer with the layer, or taking of it, ends early */
    FAULT_BUSY,       /* 429 to the first request for anything */
    FAULT_DOWN,       /* 503 to everything */
    FAULT_DENIED,     /* 403 to whoever writes */
    FAULT_GONE,       /* 404 for the layer */
    FAULT_REDIRECT,   /* the layer is at `other` */
    FAULT_LOOP,       /* the layer is where it was asked for */
    FAULT_ELSEWHERE,  /* the layer is at an address that is not https */
};

struct fault_server {
    struct image_store *store;
    char address[32];  /* host:port */
    const char *other; /* host:port of another one */
    enum fault fault;
    struct str manifest; /* what tags give */
    struct str second;   /* what digests give when set, else the manifest */
    char layer[DIGEST_TEXT];
    const char *challenge;            /* WWW-Authenticate for those who come without `wanted` */
    const char *wanted;               /* the Authorization that is let in */
    const char *token, *token_wanted; /* what /token answers, to whom */
    /* what was seen */
    pthread_mutex_t lock;
    int requests, ranges, authorized, tokens, layers;
    int uploads, taken, manifests; /* of the layer: begun, whole; and whole manifests */
    char last_range[64];
    char last_token_query[512];
    /* its own */
    int fd, quit, live;
    pthread_cond_t ended;
    pthread_t thread;
};

/* On this address of 127.0.0.0/8, any port. */
bool fault_server_start(struct fault_server *server, const char *host);
void fault_server_stop(struct fault_server *server);
