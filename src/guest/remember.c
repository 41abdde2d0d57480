#include "guest/remember.h"

#include "base/own.h"

enum { BATCH_MS = 50 };

static void wake_up(void *arg)
{
    struct agent *agent = arg;

    agent->remember_timer = NULL;
    remember_listen(agent);
}

static void stop_listening(struct agent *agent)
{
    loop_cancel(TAKE(agent->remember_timer));
    loop_remove(TAKE(agent->remember_source));
}

static void events_came(void *arg, unsigned events UNUSED)
{
    struct agent *agent = arg;

    remember_suspend(agent);
    if (agent->seen.watch_fd >= 0)
        agent->remember_timer = loop_after(agent->loop, BATCH_MS, wake_up, agent);
}

void remember_listen(struct agent *agent)
{
    struct error err;

    stop_listening(agent);
    if (agent->seen.watch_fd >= 0 && !loop_add(agent->loop, agent->seen.watch_fd, LOOP_READ,
                                               events_came, agent, &agent->remember_source, &err))
        seen_forget(&agent->seen, "nothing can be watched here");
}

void remember_suspend(struct agent *agent)
{
    stop_listening(agent);
    seen_drain(&agent->seen);
}

void remember_drop(struct agent *agent)
{
    stop_listening(agent);
    seen_finish(&agent->seen);
}

void remember_walk(struct agent *agent, struct walk *walk)
{
    /* Two whole tables at once would be too much. */
    if (!walk->is_difference)
        seen_forget(&agent->seen, NULL);
    walk->seen = &agent->seen;
    walk->is_remembering = seen_begin(&agent->seen, agent->sandbox.merged_fd);
}

void remember_walked(struct agent *agent, struct walk *walk, const char *mark)
{
    struct seen *seen = &agent->seen;

    if (walk->is_remembering && !seen->lack && walk->made) {
        seen_commit(seen, TAKE(walk->made), mark, walk->is_live);
    } else if (walk->is_remembering) {
        seen_folder_destroy(seen, TAKE(walk->made));
        seen_forget(seen, seen->lack);
    }
    walk->is_remembering = false;
}
