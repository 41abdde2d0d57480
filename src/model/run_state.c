#include "model/run_state.h"

#include <stdlib.h>

#include "base/attr.h"

/* The whole machine. A row that is not here is a transition that cannot happen. */
static const struct machine_move moves[] = {
    /* the way forward */
    {RUN_CREATED,        RUN_ENQUEUE,            RUN_QUEUED,         0                        },
    {RUN_QUEUED,         RUN_LEASE,              RUN_LEASED,         0                        },
    {RUN_LEASED,         RUN_START,              RUN_EXECUTING,      0                        },
    {RUN_EXECUTING,      RUN_SUCCEED,            RUN_FINISHED,       RUN_OUTCOME_SUCCEEDED    },
    {RUN_EXECUTING,      RUN_FAIL,               RUN_FINISHED,       RUN_OUTCOME_FAILED       },
    {RUN_EXECUTING,      RUN_RETRY,              RUN_QUEUED,         0                        },

    /* a blocking wait */
    {RUN_EXECUTING,      RUN_WAIT,               RUN_WAITING,        0                        },
    {RUN_WAITING,        RUN_SETTLE_HOT,         RUN_EXECUTING,      0                        },
    {RUN_WAITING,        RUN_SETTLE_PARKED,      RUN_QUEUED,         0                        },
    {RUN_WAITING,        RUN_RESUME_FAILED,      RUN_FINISHED,       RUN_OUTCOME_FAILED       },

    /* it never came to run the task */
    {RUN_QUEUED,         RUN_TTL,                RUN_FINISHED,       RUN_OUTCOME_EXPIRED      },
    {RUN_QUEUED,         RUN_DISPATCH_LIMIT,     RUN_FINISHED,       RUN_OUTCOME_DEAD_LETTERED},
    {RUN_LEASED,         RUN_REJECT,             RUN_QUEUED,         0                        },
    {RUN_LEASED,         RUN_PREPARATION_FAILED, RUN_FINISHED,       RUN_OUTCOME_FAILED       },

    /* a worker went away, or the time is up */
    {RUN_LEASED,         RUN_LEASE_OVER,         RUN_QUEUED,         0                        },
    {RUN_EXECUTING,      RUN_LEASE_OVER,         RUN_QUEUED,         0                        },
    {RUN_WAITING,        RUN_LEASE_OVER,         RUN_QUEUED,         0                        },
    {RUN_EXECUTING,      RUN_MAX_DURATION,       RUN_FINISHED,       RUN_OUTCOME_FAILED       },

    /* cancel: at once where there is no sandbox, politely where one may be */
    {RUN_QUEUED,         RUN_CANCEL,             RUN_FINISHED,       RUN_OUTCOME_CANCELLED    },
    {RUN_WAITING,        RUN_CANCEL_PARKED,      RUN_FINISHED,       RUN_OUTCOME_CANCELLED    },
    {RUN_LEASED,         RUN_CANCEL,             RUN_PENDING_CANCEL, 0                        },
    {RUN_EXECUTING,      RUN_CANCEL,             RUN_PENDING_CANCEL, 0                        },
    {RUN_WAITING,        RUN_CANCEL,             RUN_PENDING_CANCEL, 0                        },

    /* whatever is reported after the request, it ends cancelled */
    {RUN_PENDING_CANCEL, RUN_GONE,               RUN_FINISHED,       RUN_OUTCOME_CANCELLED    },
    {RUN_PENDING_CANCEL, RUN_SUCCEED,            RUN_FINISHED,       RUN_OUTCOME_CANCELLED    },
    {RUN_PENDING_CANCEL, RUN_FAIL,               RUN_FINISHED,       RUN_OUTCOME_CANCELLED    },
    {RUN_PENDING_CANCEL, RUN_REJECT,             RUN_FINISHED,       RUN_OUTCOME_CANCELLED    },
    {RUN_PENDING_CANCEL, RUN_PREPARATION_FAILED, RUN_FINISHED,       RUN_OUTCOME_CANCELLED    },
    {RUN_PENDING_CANCEL, RUN_LEASE_OVER,         RUN_FINISHED,       RUN_OUTCOME_CANCELLED    },
    {RUN_PENDING_CANCEL, RUN_MAX_DURATION,       RUN_FINISHED,       RUN_OUTCOME_CANCELLED    },
    {RUN_PENDING_CANCEL, RUN_CANCEL_GRACE,       RUN_FINISHED,       RUN_OUTCOME_CANCELLED    },
};

bool run_state_apply(enum run_state *state, enum run_event on, enum run_outcome *outcome)
{
    const struct machine_move *move = machine_find(&run_machine, (int)*state, (int)on);

    if (!move)
        return false;
    *state = (enum run_state)move->to;
    if (move->outcome && outcome)
        *outcome = (enum run_outcome)move->outcome;
    return true;
}

bool run_state_is_final(enum run_state state)
{
    return state == RUN_FINISHED;
}

bool run_event_is_expiry(enum run_event event)
{
    return event == RUN_TTL || event == RUN_LEASE_OVER || event == RUN_MAX_DURATION ||
           event == RUN_CANCEL_GRACE;
}

static enum run_status status_of_outcome(enum run_outcome outcome)
{
    switch (outcome) {
    case RUN_OUTCOME_SUCCEEDED: return RUN_STATUS_SUCCEEDED;
    case RUN_OUTCOME_CANCELLED: return RUN_STATUS_CANCELLED;
    case RUN_OUTCOME_EXPIRED: return RUN_STATUS_EXPIRED;
    case RUN_OUTCOME_FAILED:
    case RUN_OUTCOME_DEAD_LETTERED:
    case RUN_OUTCOME_NONE:
    case RUN_OUTCOME_COUNT: return RUN_STATUS_FAILED;
    }
    abort();
}

enum run_status run_status_of(enum run_state state, enum run_outcome outcome, enum run_state before)
{
    const enum run_state shown = state == RUN_PENDING_CANCEL ? before : state;

    switch (shown) {
    case RUN_CREATED:
    case RUN_QUEUED:
    case RUN_LEASED: return RUN_STATUS_QUEUED;
    case RUN_EXECUTING: return RUN_STATUS_RUNNING;
    case RUN_WAITING: return RUN_STATUS_WAITING;
    case RUN_FINISHED: return status_of_outcome(outcome);
    case RUN_PENDING_CANCEL:
    case RUN_STATE_COUNT: break;
    }
    abort();
}

const char *run_state_name(enum run_state state)
{
    switch (state) {
    case RUN_CREATED: return "created";
    case RUN_QUEUED: return "queued";
    case RUN_LEASED: return "leased";
    case RUN_EXECUTING: return "executing";
    case RUN_WAITING: return "waiting";
    case RUN_PENDING_CANCEL: return "pending_cancel";
    case RUN_FINISHED: return "finished";
    case RUN_STATE_COUNT: break;
    }
    abort();
}

const char *run_outcome_name(enum run_outcome outcome)
{
    switch (outcome) {
    case RUN_OUTCOME_NONE: return "";
    case RUN_OUTCOME_SUCCEEDED: return "succeeded";
    case RUN_OUTCOME_FAILED: return "failed";
    case RUN_OUTCOME_CANCELLED: return "cancelled";
    case RUN_OUTCOME_EXPIRED: return "expired";
    case RUN_OUTCOME_DEAD_LETTERED: return "dead_lettered";
    case RUN_OUTCOME_COUNT: break;
    }
    abort();
}

const char *run_status_name(enum run_status status)
{
    switch (status) {
    case RUN_STATUS_QUEUED: return "queued";
    case RUN_STATUS_RUNNING: return "running";
    case RUN_STATUS_WAITING: return "waiting";
    case RUN_STATUS_SUCCEEDED: return "succeeded";
    case RUN_STATUS_FAILED: return "failed";
    case RUN_STATUS_CANCELLED: return "cancelled";
    case RUN_STATUS_EXPIRED: return "expired";
    case RUN_STATUS_COUNT: break;
    }
    abort();
}

const char *run_event_name(enum run_event event)
{
    switch (event) {
    case RUN_ENQUEUE: return "enqueue";
    case RUN_LEASE: return "lease";
    case RUN_START: return "start";
    case RUN_REJECT: return "reject";
    case RUN_PREPARATION_FAILED: return "preparation_failed";
    case RUN_WAIT: return "wait";
    case RUN_SETTLE_HOT: return "settle_hot";
    case RUN_SETTLE_PARKED: return "settle_parked";
    case RUN_SUCCEED: return "succeed";
    case RUN_FAIL: return "fail";
    case RUN_RETRY: return "retry";
    case RUN_RESUME_FAILED: return "resume_failed";
    case RUN_CANCEL: return "cancel";
    case RUN_CANCEL_PARKED: return "cancel_parked";
    case RUN_GONE: return "gone";
    case RUN_TTL: return "ttl";
    case RUN_DISPATCH_LIMIT: return "dispatch_limit";
    case RUN_LEASE_OVER: return "lease_over";
    case RUN_MAX_DURATION: return "max_duration";
    case RUN_CANCEL_GRACE: return "cancel_grace";
    case RUN_EVENT_COUNT: break;
    }
    abort();
}

bool run_state_parse(struct str text, enum run_state *state)
{
    for (enum run_state s = 0; s < RUN_STATE_COUNT; s++) {
        if (str_equal(text, str_of(run_state_name(s)))) {
            *state = s;
            return true;
        }
    }
    return false;
}

bool run_outcome_parse(struct str text, enum run_outcome *outcome)
{
    for (enum run_outcome o = 0; o < RUN_OUTCOME_COUNT; o++) {
        if (str_equal(text, str_of(run_outcome_name(o)))) {
            *outcome = o;
            return true;
        }
    }
    return false;
}

bool run_status_parse(struct str text, enum run_status *status)
{
    for (enum run_status s = 0; s < RUN_STATUS_COUNT; s++) {
        if (str_equal(text, str_of(run_status_name(s)))) {
            *status = s;
            return true;
        }
    }
    return false;
}

static const char *state_name(int state)
{
    return run_state_name((enum run_state)state);
}

static const char *event_name(int event)
{
    return run_event_name((enum run_event)event);
}

static const char *outcome_name(int outcome)
{
    return run_outcome_name((enum run_outcome)outcome);
}

static bool is_expiry(int event)
{
    return run_event_is_expiry((enum run_event)event);
}

const struct machine run_machine = {
    .name = "run",
    .moves = moves,
    .n_moves = COUNT_OF(moves),
    .n_states = RUN_STATE_COUNT,
    .n_events = RUN_EVENT_COUNT,
    .state_name = state_name,
    .event_name = event_name,
    .outcome_name = outcome_name,
    .is_expiry = is_expiry,
};
