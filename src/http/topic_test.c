/* Calls that wait in turn: who is woken, who is next, and what becomes of a turn. */
#include "http/topic.h"

#include <sched.h>
#include <semaphore.h>

#include "base/own.h"
#include "base/test.h"
#include "http/server_state.h"
#include "http/testing.h"

#define HOST "Host: h\r\n"
#define END  "\r\n"

enum { WAITERS = 5 };

/* Things that are given out, of two sizes; one call takes one. */
static _Atomic int small, large;
static _Atomic int n_looks, n_last_turns;
static _Atomic bool must_hold;
static sem_t is_held, may_go_on;
static struct reply reply;

static bool take_one(_Atomic int *things)
{
    int n = atomic_load(things);

    while (n > 0)
        if (atomic_compare_exchange_weak(things, &n, n - 1))
            return true;
    return false;
}

/* /take/<kind>: a small one takes small things only, a shy one lets the others go first. */
static bool take(struct call *call, struct response *res, struct error *err)
{
    struct str kind = call_param(call, 0);
    bool is_shy = str_equal(kind, STR("shy"));
    const struct response_turn park = {
        .topic = "things",
        .wait_ms = 60000,
        .line = str_equal(kind, STR("other")),
        .comes_last = is_shy && !call->is_last_turn && atomic_load(&small) > 0,
    };

    atomic_fetch_add(&n_looks, 1);
    if (call->is_last_turn)
        atomic_fetch_add(&n_last_turns, 1);
    if (atomic_exchange(&must_hold, false)) {
        sem_post(&is_held);
        sem_wait(&may_go_on);
    }
    if (call->is_last_try || (!park.comes_last && take_one(&small)) ||
        (str_equal(kind, STR("large")) && take_one(&large))) {
        response_json(res, 200);
        if (!buf_append(response_body(res), call->is_last_try ? STR("none") : kind, err))
            return false;
    } else {
        response_park_in_turn(res, &park);
    }
    if (atomic_load(&small) == 0 && atomic_load(&large) == 0)
        response_end_turn(res);
    return true;
}

static const struct route routes[] = {
    {METHOD_GET, "/take/:kind", 1, take},
};

struct probe {
    uint64_t n_places;
    sem_t done;
};

static void read_places(void *arg)
{
    struct probe *probe = arg;

    probe->n_places = testing_server->topics.n_places;
    sem_post(&probe->done);
}

static uint64_t places_given(void)
{
    struct probe probe = {0};

    sem_init(&probe.done, 0, 0);
    loop_post(testing_server->config.loop, read_places, &probe);
    sem_wait(&probe.done);
    sem_destroy(&probe.done);
    return probe.n_places;
}

/* A call that waits when this returns. */
static int begin_waiting(const char *kind)
{
    uint64_t before = places_given();
    char request[128];
    int fd = testing_dial();

    snprintf(request, sizeof request, "GET /take/%s HTTP/1.1\r\n" HOST END, kind);
    if (!testing_say(fd, str_of(request)))
        abort();
    while (places_given() == before)
        sched_yield();
    return fd;
}

static bool is_answered(int fd, const char *text)
{
    return testing_hear(fd, &reply) && strcmp(reply.body, text) == 0;
}

/* Nobody is in the middle of looking: every wake-up so far has been seen to its end. */
static void settle(int looks)
{
    while (atomic_load(&n_looks) < looks)
        sched_yield();
    places_given();
}

static void end_all(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

TEST(a_wake_up_reaches_who_waits_longest_and_nobody_else)
{
    int fds[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        fds[i] = begin_waiting("small");
    int looks = atomic_load(&n_looks);
    for (int i = 0; i < WAITERS; i++) {
        atomic_store(&small, 1);
        http_server_wake(testing_server, "things");
        CHECK(is_answered(fds[i], "small"));
        settle(looks + i + 1);
        CHECK(atomic_load(&n_looks) == looks + i + 1);
    }
    end_all(fds, WAITERS);
}

TEST(many_things_at_once_reach_as_many_calls)
{
    int fds[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        fds[i] = begin_waiting("small");
    int looks = atomic_load(&n_looks);
    atomic_store(&small, WAITERS - 1);
    http_server_wake(testing_server, "things");
    for (int i = 0; i < WAITERS - 1; i++)
        CHECK(is_answered(fds[i], "small"));
    settle(looks + WAITERS - 1);
    CHECK(atomic_load(&n_looks) == looks + WAITERS - 1 && atomic_load(&small) == 0);
    end_all(fds, WAITERS);
}

TEST(what_does_not_fit_the_first_goes_to_the_next_that_it_fits)
{
    int fds[] = {begin_waiting("small"), begin_waiting("small"), begin_waiting("large"),
                 begin_waiting("large")};
    atomic_store(&large, 1);
    http_server_wake(testing_server, "things");
    CHECK(is_answered(fds[2], "large"));

    /* Whoever looked in vain has kept its place. */
    atomic_store(&small, 1);
    http_server_wake(testing_server, "things");
    CHECK(is_answered(fds[0], "small"));
    end_all(fds, COUNT_OF(fds));
}

TEST(what_fits_nobody_ends_when_everybody_has_looked)
{
    int fds[] = {begin_waiting("small"), begin_waiting("small"), begin_waiting("small")};
    int looks = atomic_load(&n_looks);
    atomic_store(&large, 1);
    http_server_wake(testing_server, "things");
    settle(looks + 3);
    CHECK(testing_ask("GET /take/large HTTP/1.1\r\n" HOST END, &reply) == 200);
    CHECK(atomic_load(&n_looks) == looks + 4);
    end_all(fds, COUNT_OF(fds));
}

TEST(each_line_has_its_own_turn)
{
    int fds[] = {begin_waiting("small"), begin_waiting("small"), begin_waiting("other"),
                 begin_waiting("other")};
    atomic_store(&small, 4);
    http_server_wake(testing_server, "things");
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        CHECK(is_answered(fds[i], i < 2 ? "small" : "other"));
    end_all(fds, COUNT_OF(fds));
}

TEST(who_comes_last_is_asked_when_nobody_else_wants_it)
{
    int fds[] = {begin_waiting("shy"), begin_waiting("small")};
    int last = atomic_load(&n_last_turns);
    atomic_store(&small, 1);
    http_server_wake(testing_server, "things");
    CHECK(is_answered(fds[1], "small"));
    CHECK(atomic_load(&n_last_turns) == last);

    /* Alone it gets it at once, and when it comes anew, too. */
    atomic_store(&small, 1);
    http_server_wake(testing_server, "things");
    CHECK(is_answered(fds[0], "shy"));
    CHECK(atomic_load(&n_last_turns) == last + 1);
    atomic_store(&small, 1);
    CHECK(testing_ask("GET /take/shy HTTP/1.1\r\n" HOST END, &reply) == 200);
    CHECK(atomic_load(&n_last_turns) == last + 2);
    end_all(fds, COUNT_OF(fds));
}

TEST(the_turn_of_a_client_that_left_is_passed_on)
{
    int answers = atomic_load(&testing_answered);
    int fds[] = {begin_waiting("small"), begin_waiting("large")};
    atomic_store(&must_hold, true);
    atomic_store(&large, 1);
    http_server_wake(testing_server, "things");
    sem_wait(&is_held);
    close(fds[0]);
    fds[0] = -1;
    places_given();
    sem_post(&may_go_on);
    CHECK(is_answered(fds[1], "large"));
    CHECK(testing_answers_reach(answers + 2));
    end_all(fds, COUNT_OF(fds));
}

int main(void)
{
    static const struct http_config plain;

    sem_init(&is_held, 0, 0);
    sem_init(&may_go_on, 0, 0);
    testing_start(routes, COUNT_OF(routes), &plain);
    int status = test_run_all();
    testing_begin_stop(1000);
    testing_stop();
    return status;
}
