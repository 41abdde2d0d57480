/* What every state machine here is: a list of legal moves. A move that is not in the list
 * cannot happen, and the API, the workers' reports and the sweeper all ask the same list.
 *
 * The typed machines (run_state.h …) wrap this; it prints them all in the same way.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct machine_move {
    int from, on, to;
    int outcome; /* how a run finished; 0 elsewhere */
};

struct machine {
    const char *name;
    const struct machine_move *moves;
    size_t n_moves;
    int n_states, n_events;
    const char *(*state_name)(int state);
    const char *(*event_name)(int event);
    const char *(*outcome_name)(int outcome); /* NULL when there are none */
    bool (*is_expiry)(int event);
};

/* The move, or NULL when it is not legal. */
const struct machine_move *machine_find(const struct machine *machine, int from, int on);

/* Whether a state has a way out that needs no report from anyone. */
bool machine_has_expiry(const struct machine *machine, int state);
bool machine_is_dead_end(const struct machine *machine, int state);

/* Every (state, event) pair that is legal, a line per state. */
void machine_print_moves(const struct machine *machine, FILE *out);
/* A Mermaid state diagram, without the fence. */
void machine_print_diagram(const struct machine *machine, FILE *out);
