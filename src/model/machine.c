#include "model/machine.h"

const struct machine_move *machine_find(const struct machine *machine, int from, int on)
{
    for (size_t i = 0; i < machine->n_moves; i++) {
        if (machine->moves[i].from == from && machine->moves[i].on == on)
            return &machine->moves[i];
    }
    return NULL;
}

bool machine_has_expiry(const struct machine *machine, int state)
{
    for (size_t i = 0; i < machine->n_moves; i++) {
        if (machine->moves[i].from == state && machine->is_expiry(machine->moves[i].on))
            return true;
    }
    return false;
}

bool machine_is_dead_end(const struct machine *machine, int state)
{
    for (size_t i = 0; i < machine->n_moves; i++) {
        if (machine->moves[i].from == state)
            return false;
    }
    return true;
}

static void print_target(const struct machine *machine, const struct machine_move *move, FILE *out)
{
    fprintf(out, "%s", machine->state_name(move->to));
    if (move->outcome)
        fprintf(out, " %s", machine->outcome_name(move->outcome));
}

void machine_print_moves(const struct machine *machine, FILE *out)
{
    for (int state = 0; state < machine->n_states; state++) {
        fprintf(out, "%s:", machine->state_name(state));
        for (int event = 0; event < machine->n_events; event++) {
            const struct machine_move *move = machine_find(machine, state, event);

            if (!move)
                continue;
            fprintf(out, " %s > ", machine->event_name(event));
            print_target(machine, move, out);
            fprintf(out, ";");
        }
        fprintf(out, "\n");
    }
}

void machine_print_diagram(const struct machine *machine, FILE *out)
{
    fprintf(out, "stateDiagram-v2\n    [*] --> %s\n", machine->state_name(0));
    for (size_t i = 0; i < machine->n_moves; i++) {
        const struct machine_move *move = &machine->moves[i];

        fprintf(out, "    %s --> %s: %s%s", machine->state_name(move->from),
                machine->state_name(move->to), machine->is_expiry(move->on) ? "⏱ " : "",
                machine->event_name(move->on));
        if (move->outcome)
            fprintf(out, " (%s)", machine->outcome_name(move->outcome));
        fprintf(out, "\n");
    }
    for (int state = 0; state < machine->n_states; state++) {
        if (machine_is_dead_end(machine, state))
            fprintf(out, "    %s --> [*]\n", machine->state_name(state));
    }
}
