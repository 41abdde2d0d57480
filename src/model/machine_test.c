#include "model/machine.h"

#include <stdlib.h>

#include "base/attr.h"
#include "base/test.h"
#include "model/checkpoint_state.h"
#include "model/continuation_state.h"
#include "model/deployment_state.h"
#include "model/exec_state.h"
#include "model/lease_state.h"
#include "model/machines.h"
#include "model/mount_state.h"
#include "model/pty_state.h"
#include "model/run_state.h"
#include "model/schedule_state.h"
#include "model/session_state.h"
#include "model/token_state.h"
#include "model/wait_state.h"
#include "model/worker_state.h"
#include "model/workspace_state.h"

static const char *moves_of(const struct machine *machine)
{
    static char text[16384];
    FILE *out = fmemopen(text, sizeof text, "w");

    machine_print_moves(machine, out);
    fclose(out);
    return text;
}

/* The whole matrix: a pair that is not listed is refused. */
TEST(a_run_moves_as_the_specification_says)
{
    CHECK_STR(
        moves_of(&run_machine),
        "created: enqueue > queued;\n"
        "queued: lease > leased; cancel > finished cancelled; ttl > finished expired;"
        " dispatch_limit > finished dead_lettered;\n"
        "leased: start > executing; reject > queued; preparation_failed > finished failed;"
        " cancel > pending_cancel; lease_over > queued;\n"
        "executing: wait > waiting; succeed > finished succeeded; fail > finished failed;"
        " retry > queued; cancel > pending_cancel; lease_over > queued;"
        " max_duration > finished failed;\n"
        "waiting: settle_hot > executing; settle_parked > queued; resume_failed > finished failed;"
        " cancel > pending_cancel; cancel_parked > finished cancelled; lease_over > queued;\n"
        "pending_cancel: reject > finished cancelled; preparation_failed > finished cancelled;"
        " succeed > finished cancelled; fail > finished cancelled; gone > finished cancelled;"
        " lease_over > finished cancelled; max_duration > finished cancelled;"
        " cancel_grace > finished cancelled;\n"
        "finished:\n");
}

TEST(a_lease_moves_as_the_specification_says)
{
    CHECK_STR(moves_of(&lease_machine),
              "assigned: begin > starting; reject > rejected; cancel > cancelled; release > lost;"
              " expire > expired; state_deadline > expired; supersede > lost;"
              " cancel_grace > cancelled; hard_deadline > lost;\n"
              "starting: start > running; reject > rejected; reject_final > failed;"
              " cancel > cancelled; release > lost; expire > expired; state_deadline > expired;"
              " supersede > lost; cancel_grace > cancelled; hard_deadline > lost;\n"
              "running: checkpoint_begin > checkpointing; succeed > completed; fail > failed;"
              " cancel > cancelled; release > lost; expire > lost; state_deadline > lost;"
              " supersede > lost; cancel_grace > cancelled; hard_deadline > lost;\n"
              "checkpointing: checkpoint_abort > running; checkpoint_ready > checkpointed;"
              " fail > failed; cancel > cancelled; release > lost; expire > lost;"
              " state_deadline > lost; supersede > lost; cancel_grace > cancelled;"
              " hard_deadline > lost;\n"
              "checkpointed:\ncompleted:\nfailed:\ncancelled:\nlost:\nrejected:\nexpired:\n");
}

TEST(a_deployment_moves_as_the_specification_says)
{
    CHECK_STR(moves_of(&deployment_machine),
              "queued: start > building; cancel > failed; queue_deadline > failed;\n"
              "building: built > deployed; fail > failed; cancel > failed; lease_lost > queued;"
              " leases_spent > failed; build_deadline > failed;\n"
              "deployed:\nfailed:\n");
}

TEST(a_worker_moves_as_the_specification_says)
{
    CHECK_STR(moves_of(&worker_machine),
              "registering: activate > active; heartbeat_lost > lost;"
              " registration_deadline > lost;\n"
              "active: drain > draining; heartbeat_lost > lost;\n"
              "draining: undrain > active; drained > disabled; heartbeat_lost > lost;\n"
              "disabled: heartbeat_lost > lost;\n"
              "lost: register > registering;\n");
}

TEST(a_checkpoint_moves_as_the_specification_says)
{
    CHECK_STR(moves_of(&checkpoint_machine),
              "creating: stage > staged; abort > invalid; lease_over > invalid;"
              " deadline > invalid;\n"
              "staged: fence > ready; abort > invalid; lease_over > ready;\n"
              "ready: damage > invalid; retention > deleted;\n"
              "invalid:\ndeleted:\n");
}

TEST(a_wait_moves_as_the_specification_says)
{
    CHECK_STR(moves_of(&wait_condition_machine),
              "pending: complete > completed; expire > expired; cancel > cancelled;"
              " fail > failed;\n"
              "completed:\nexpired:\ncancelled:\nfailed:\n");
    CHECK_STR(moves_of(&wait_suspension_machine),
              "hot: checkpoint > checkpointing; deliver > released; lease_lost > cancelled;"
              " run_over > cancelled;\n"
              "checkpointing: park > parked; park_settled > resume_pending;"
              " checkpoint_fail > hot; checkpoint_deadline > hot; lease_lost > cancelled;"
              " run_over > cancelled;\n"
              "parked: settle > resume_pending; run_over > cancelled;\n"
              "resume_pending: take > resuming; resume_fail > failed; run_over > cancelled;\n"
              "resuming: acknowledge > released; resume_lost > resume_pending;"
              " resume_fail > failed; run_over > cancelled;\n"
              "released: redeliver > resume_pending;\n"
              "failed:\ncancelled:\n");
}

TEST(a_token_moves_as_the_specification_says)
{
    CHECK_STR(moves_of(&token_machine),
              "pending: complete > completed; cancel > cancelled; expire > expired;\n"
              "completed:\ncancelled:\nexpired:\n");
}

TEST(a_schedule_moves_as_the_specification_says)
{
    CHECK_STR(moves_of(&schedule_machine), "active: deactivate > inactive; break > errored;\n"
                                           "inactive: activate > active;\n"
                                           "errored: mend > active;\n");
}

TEST(a_workspace_moves_as_the_specification_says)
{
    CHECK_STR(moves_of(&workspace_machine),
              "active: archive > archived; lose > recovery_required; delete > deleting;\n"
              "archived: unarchive > active; delete > deleting;\n"
              "recovery_required: recover > active; delete > deleting;\n"
              "deleting: purge > deleted;\n"
              "deleted:\n");
}

TEST(a_session_moves_as_the_specification_says)
{
    CHECK_STR(moves_of(&session_machine),
              "open: close > closed; cancel > cancelled; expire > expired;\n"
              "closed:\ncancelled:\nexpired:\n");
    CHECK_STR(moves_of(&continuation_machine),
              "accepted: claim > claimed;\n"
              "claimed: create > created; skip > skipped; fail > failed;"
              " claim_over > accepted;\n"
              "created:\nskipped:\nfailed:\n");
}

TEST(a_mount_moves_as_the_specification_says)
{
    CHECK_STR(moves_of(&mount_machine),
              "mounting: ready > mounted; fail > failed; cancel > failed; deadline > failed;\n"
              "mounted: stop > unmounting; lease_over > lost;\n"
              "unmounting: close > unmounted; lease_over > lost;\n"
              "unmounted:\nfailed:\nlost:\n");
}

TEST(commands_and_terminals_move_as_the_specification_says)
{
    CHECK_STR(moves_of(&exec_machine),
              "queued: start > running; fail > failed; deadline > failed; mount_lost > lost;\n"
              "running: exit > exited; mount_lost > lost;\n"
              "exited:\nfailed:\nlost:\n");
    CHECK_STR(moves_of(&pty_machine),
              "starting: start > open; fail > failed; deadline > failed; mount_lost > lost;\n"
              "open: exit > closed; mount_lost > lost;\n"
              "closed:\nfailed:\nlost:\n");
}

TEST(the_activity_of_a_session_is_derived)
{
    static const struct {
        struct session_signs signs;
        const char *activity;
        bool can_close;
    } rows[] = {
        {{SESSION_CLOSED, false, true, true, true, RUN_EXECUTING},      "idle",    false},
        {{SESSION_EXPIRED, true, false, true, false, RUN_FINISHED},     "idle",    false},
        {{SESSION_OPEN, false, true, true, true, RUN_WAITING},          "queued",  false},
        {{SESSION_OPEN, false, true, true, false, RUN_FINISHED},        "queued",  false},
        {{SESSION_OPEN, false, false, false, false, RUN_CREATED},       "idle",    true },
        {{SESSION_OPEN, false, false, true, false, RUN_FINISHED},       "idle",    true },
        {{SESSION_OPEN, true, false, true, false, RUN_FINISHED},        "idle",    false},
        {{SESSION_OPEN, false, false, true, true, RUN_WAITING},         "waiting", false},
        {{SESSION_OPEN, false, false, true, false, RUN_QUEUED},         "queued",  false},
        {{SESSION_OPEN, false, false, true, false, RUN_LEASED},         "queued",  false},
        {{SESSION_OPEN, false, false, true, false, RUN_EXECUTING},      "running", false},
        {{SESSION_OPEN, false, false, true, false, RUN_PENDING_CANCEL}, "running", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_STR(session_activity_name(session_activity_of(&rows[i].signs)), rows[i].activity);
        CHECK(session_can_close(&rows[i].signs) == rows[i].can_close);
    }
}

TEST(a_wait_is_only_ever_in_a_legal_pair)
{
    static const char *const legal[WAIT_CONDITION_COUNT] = {
        "hot checkpointing parked ",
        "hot checkpointing resume_pending resuming released failed cancelled ",
        "hot checkpointing resume_pending resuming released failed cancelled ",
        "hot checkpointing resume_pending resuming released failed cancelled ",
        "hot checkpointing resume_pending resuming released failed cancelled ",
    };

    for (enum wait_condition c = 0; c < WAIT_CONDITION_COUNT; c++) {
        char text[256] = "";
        size_t used = 0;

        for (enum wait_suspension s = 0; s < SUSPENSION_COUNT; s++)
            if (wait_pair_is_legal(c, s))
                used += (size_t)snprintf(text + used, sizeof text - used, "%s ",
                                         wait_suspension_name(s));
        CHECK_STR(text, legal[c]);
    }
}

/* A condition may settle whatever the suspension; only the parked one moves with it. */
TEST(settling_leads_from_legal_pairs_to_legal_pairs)
{
    for (enum wait_suspension s = 0; s < SUSPENSION_COUNT; s++) {
        for (enum condition_event on = 0; on < CONDITION_EVENT_COUNT; on++) {
            enum wait_condition condition = WAIT_PENDING;
            enum wait_suspension suspension = s;

            if (!wait_pair_is_legal(condition, suspension))
                continue;
            CHECK(wait_condition_apply(&condition, on));
            wait_suspension_apply(&suspension, WAIT_SETTLE);
            CHECK(wait_pair_is_legal(condition, suspension));
        }
    }
}

TEST(a_live_suspension_can_always_be_ended_with_its_run)
{
    for (enum wait_suspension s = 0; s < SUSPENSION_COUNT; s++) {
        enum wait_suspension after = s;

        CHECK(wait_suspension_apply(&after, WAIT_RUN_OVER) == wait_suspension_is_live(s));
        CHECK(!wait_suspension_is_live(s) || after == SUSPENSION_CANCELLED);
    }
}

TEST(every_live_state_has_an_expiry_edge)
{
    for (size_t i = 0; i < n_machines; i++) {
        const struct machine *machine = machines[i];

        for (int state = 0; state < machine->n_states; state++) {
            /* Never committed: a run is created and queued in one transaction. */
            bool is_momentary = machine == &run_machine && state == RUN_CREATED;
            /* Waits for the machine itself to come back, and holds nothing. */
            bool is_away = machine == &worker_machine && state == WORKER_LOST;

            /* Holds nothing: its condition expires, or it stands in the queue. */
            bool is_stored = machine == &wait_suspension_machine &&
                             (state == SUSPENSION_PARKED || state == SUSPENSION_RESUME_PENDING);

            /* Holds nothing: it stands in the queue for its workspace. */
            bool is_asked = machine == &continuation_machine && state == CONTINUATION_ACCEPTED;

            /* Waits for nobody. */
            bool is_plan = machine == &schedule_machine ||
                           (machine == &workspace_machine && state != WORKSPACE_DELETING);

            if (!machine_is_dead_end(machine, state) && !is_momentary && !is_away && !is_stored &&
                !is_asked && !is_plan)
                CHECK(machine_has_expiry(machine, state));
        }
    }
}

TEST(a_final_state_accepts_nothing)
{
    for (enum run_state s = 0; s < RUN_STATE_COUNT; s++)
        CHECK(run_state_is_final(s) == machine_is_dead_end(&run_machine, (int)s));
    for (enum lease_state s = 0; s < LEASE_STATE_COUNT; s++)
        CHECK(lease_state_is_final(s) == machine_is_dead_end(&lease_machine, (int)s));
    for (enum deployment_state s = 0; s < DEPLOYMENT_STATE_COUNT; s++)
        CHECK(deployment_state_is_final(s) == machine_is_dead_end(&deployment_machine, (int)s));
    for (enum worker_state s = 0; s < WORKER_STATE_COUNT; s++)
        CHECK(!worker_state_is_final(s));
    for (enum checkpoint_state s = 0; s < CHECKPOINT_STATE_COUNT; s++)
        CHECK(checkpoint_state_is_final(s) == machine_is_dead_end(&checkpoint_machine, (int)s));
}

TEST(no_pair_has_two_moves)
{
    for (size_t i = 0; i < n_machines; i++) {
        const struct machine *machine = machines[i];

        for (size_t a = 0; a < machine->n_moves; a++) {
            const struct machine_move *move = &machine->moves[a];

            CHECK(machine_find(machine, move->from, move->on) == move);
        }
    }
}

TEST(every_state_can_be_reached)
{
    for (size_t i = 0; i < n_machines; i++) {
        const struct machine *machine = machines[i];

        for (int state = 1; state < machine->n_states; state++) {
            bool is_reached = false;

            for (size_t a = 0; a < machine->n_moves; a++)
                is_reached = is_reached || machine->moves[a].to == state;
            CHECK(is_reached);
        }
    }
}

TEST(every_name_reads_back)
{
    for (enum run_state s = 0, back; s < RUN_STATE_COUNT; s++)
        CHECK(run_state_parse(str_of(run_state_name(s)), &back) && back == s);
    for (enum run_outcome o = 0, back; o < RUN_OUTCOME_COUNT; o++)
        CHECK(run_outcome_parse(str_of(run_outcome_name(o)), &back) && back == o);
    for (enum run_status s = 0, back; s < RUN_STATUS_COUNT; s++)
        CHECK(run_status_parse(str_of(run_status_name(s)), &back) && back == s);
    for (enum lease_state s = 0, back; s < LEASE_STATE_COUNT; s++)
        CHECK(lease_state_parse(str_of(lease_state_name(s)), &back) && back == s);
    for (enum deployment_state s = 0, back; s < DEPLOYMENT_STATE_COUNT; s++)
        CHECK(deployment_state_parse(str_of(deployment_state_name(s)), &back) && back == s);
    for (enum worker_state s = 0, back; s < WORKER_STATE_COUNT; s++)
        CHECK(worker_state_parse(str_of(worker_state_name(s)), &back) && back == s);
    for (enum checkpoint_state s = 0, back; s < CHECKPOINT_STATE_COUNT; s++)
        CHECK(checkpoint_state_parse(str_of(checkpoint_state_name(s)), &back) && back == s);
    for (enum wait_kind k = 0, back; k < WAIT_KIND_COUNT; k++)
        CHECK(wait_kind_parse(str_of(wait_kind_name(k)), &back) && back == k);
    for (enum wait_condition c = 0, back; c < WAIT_CONDITION_COUNT; c++)
        CHECK(wait_condition_parse(str_of(wait_condition_name(c)), &back) && back == c);
    for (enum wait_suspension s = 0, back; s < SUSPENSION_COUNT; s++)
        CHECK(wait_suspension_parse(str_of(wait_suspension_name(s)), &back) && back == s);
    for (enum token_state s = 0, back; s < TOKEN_STATE_COUNT; s++)
        CHECK(token_state_parse(str_of(token_state_name(s)), &back) && back == s);
    for (enum session_state s = 0, back; s < SESSION_STATE_COUNT; s++)
        CHECK(session_state_parse(str_of(session_state_name(s)), &back) && back == s);
    for (enum continuation_state s = 0, back; s < CONTINUATION_STATE_COUNT; s++)
        CHECK(continuation_state_parse(str_of(continuation_state_name(s)), &back) && back == s);

    enum run_state state;
    CHECK(!run_state_parse(STR("Queued"), &state) && !run_state_parse(STR(""), &state));
}

TEST(a_refused_move_changes_nothing)
{
    enum run_state state = RUN_QUEUED;
    enum run_outcome outcome = RUN_OUTCOME_NONE;
    enum lease_state lease = LEASE_LOST;

    CHECK(!run_state_apply(&state, RUN_SUCCEED, &outcome));
    CHECK(state == RUN_QUEUED && outcome == RUN_OUTCOME_NONE);
    CHECK(run_state_apply(&state, RUN_CANCEL, &outcome));
    CHECK(state == RUN_FINISHED && outcome == RUN_OUTCOME_CANCELLED);
    CHECK(!lease_state_apply(&lease, LEASE_SUCCEED) && lease == LEASE_LOST);
}

TEST(the_public_status_is_derived)
{
    static const struct {
        enum run_state state;
        enum run_outcome outcome;
        enum run_state before;
        const char *status;
    } rows[] = {
        {RUN_CREATED,        RUN_OUTCOME_NONE,          RUN_CREATED,   "queued"   },
        {RUN_QUEUED,         RUN_OUTCOME_NONE,          RUN_CREATED,   "queued"   },
        {RUN_LEASED,         RUN_OUTCOME_NONE,          RUN_CREATED,   "queued"   },
        {RUN_EXECUTING,      RUN_OUTCOME_NONE,          RUN_CREATED,   "running"  },
        {RUN_WAITING,        RUN_OUTCOME_NONE,          RUN_CREATED,   "waiting"  },
        {RUN_PENDING_CANCEL, RUN_OUTCOME_NONE,          RUN_LEASED,    "queued"   },
        {RUN_PENDING_CANCEL, RUN_OUTCOME_NONE,          RUN_EXECUTING, "running"  },
        {RUN_PENDING_CANCEL, RUN_OUTCOME_NONE,          RUN_WAITING,   "waiting"  },
        {RUN_FINISHED,       RUN_OUTCOME_SUCCEEDED,     RUN_CREATED,   "succeeded"},
        {RUN_FINISHED,       RUN_OUTCOME_FAILED,        RUN_CREATED,   "failed"   },
        {RUN_FINISHED,       RUN_OUTCOME_CANCELLED,     RUN_CREATED,   "cancelled"},
        {RUN_FINISHED,       RUN_OUTCOME_EXPIRED,       RUN_CREATED,   "expired"  },
        {RUN_FINISHED,       RUN_OUTCOME_DEAD_LETTERED, RUN_CREATED,   "failed"   },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_STR(run_status_name(run_status_of(rows[i].state, rows[i].outcome, rows[i].before)),
                  rows[i].status);
}

TEST_MAIN()
