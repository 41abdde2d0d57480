#include "model/machines.h"

#include "base/attr.h"
#include "model/checkpoint_state.h"
#include "model/continuation_state.h"
#include "model/deployment_state.h"
#include "model/exec_state.h"
#include "model/lease_state.h"
#include "model/mount_state.h"
#include "model/pty_state.h"
#include "model/run_state.h"
#include "model/schedule_state.h"
#include "model/session_state.h"
#include "model/token_state.h"
#include "model/wait_state.h"
#include "model/worker_state.h"
#include "model/workspace_state.h"

const struct machine *const machines[] = {
    &run_machine,
    &lease_machine,
    &deployment_machine,
    &worker_machine,
    &checkpoint_machine,
    &wait_condition_machine,
    &wait_suspension_machine,
    &token_machine,
    &session_machine,
    &continuation_machine,
    &schedule_machine,
    &mount_machine,
    &exec_machine,
    &pty_machine,
    &workspace_machine,
};

const size_t n_machines = COUNT_OF(machines);
