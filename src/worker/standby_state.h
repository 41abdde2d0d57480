/* The inside of struct standby, shared by standby.c (which sandboxes stand by, and who takes them)
 * and standby_make.c (how one is made).
 */
#pragma once

#include <pthread.h>

#include "worker/standby.h"
#include "worker/template_pool.h"

enum { PLACES_MAX = 32, WISHES_MAX = 8 };

enum place_state { PLACE_EMPTY, PLACE_WANTED, PLACE_MAKING, PLACE_READY };

struct place {
    enum place_state state;
    struct standby_key key;
    struct kept_kind kind;
    struct guest *guest;
    struct failure failure;
    bool is_awaited; /* by a run, while it is made */
    int64_t used_ms;
};

struct standby {
    struct worker *worker;
    struct template_pool *pool;
    size_t max;
    struct place places[PLACES_MAX];
    struct place wishes[WISHES_MAX]; /* kinds of which a template is to be made */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool is_closing;
};

/* A sandbox in the place: one that sleeps there is woken, else one is made, which may sleep. */
bool standby_make(struct standby *standby, struct place *place, bool may_sleep,
                  struct error *err) MUST_USE;

/* The template of the wish's kind, of a sandbox that is made for it and stays in the wish. */
bool standby_make_template(struct standby *standby, struct place *wish, struct template **template,
                           struct error *err) MUST_USE;
