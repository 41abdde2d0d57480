/* A worker that is killed in place of each line of its journals, one after the other; whoever comes
 * after it must find everything, and nothing may be left.
 */
#pragma once

#include <signal.h>

#include "engine/fixture.h"
#include "engine/journal.h"

enum { KILL_STEPS_MAX = 64 };

/* One slot, hence one prepared network of a kind: few steps, all of them met. */
static inline struct engine_settings fixture_kill_settings(const struct fixture *fixture)
{
    struct engine_settings settings = fixture_settings(fixture);

    settings.slots = 1;
    settings.network_enabled = true;
    return settings;
}

static inline bool fixture_reclaims(const struct fixture *fixture)
{
    struct engine_settings settings = fixture_kill_settings(fixture);
    struct engine_host *host;
    struct error err = {0};
    char tag[16];

    settings.network_enabled = false;
    if (!engine_host_open(&settings, &host, &err)) {
        printf("# %s\n", err.text);
        return false;
    }
    snprintf(tag, sizeof(tag), "%s", engine_host_tag(host));
    size_t n_quarantined = engine_host_quarantined(host, NULL, 0);
    engine_host_close(host);
    return n_quarantined == 0 && fixture_nothing_left(fixture, tag);
}

/* The whole life of a worker with one sandbox: 0 when it got to the end. */
typedef int fixture_life(const struct fixture *fixture, void *arg);

/* In a process of its own, which dies at the step. */
static inline bool fixture_live(const struct fixture *fixture, fixture_life *life, void *arg,
                                int step, int *status)
{
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        journal_die_at = step;
        _exit(life(fixture, arg));
    }
    return pid > 0 && waitpid(pid, status, 0) == pid;
}

/* The number of lines it takes to live to the end; 0: something was left, or went wrong. */
static inline int fixture_kill_at_each(const struct fixture *fixture, fixture_life *life, void *arg)
{
    for (int step = 1; step < KILL_STEPS_MAX; step++) {
        int status;
        if (!fixture_live(fixture, life, arg, step, &status))
            return 0;
        bool has_ended = status == 0;
        bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if ((!has_ended && !was_killed) || !fixture_reclaims(fixture)) {
            printf("# after a kill at step %d\n", step);
            return 0;
        }
        if (has_ended)
            return step - 1;
    }
    return 0;
}
