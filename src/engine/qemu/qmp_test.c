#include "engine/qemu/qmp.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/test.h"
#include "base/time.h"

enum { PATIENCE_MS = 60000, SHORT_MS = 50, FLOOD = 2 * QMP_LINE_MAX };

#define GREETING \
    "{\"QMP\": {\"version\": {\"qemu\": {\"major\": 7}}, \"capabilities\": [\"oob\"]}}\r\n"

/* An event may come before any answer. */
static const char event_then_answer[] =
    "{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, \"event\": \"STOP\"}\r\n"
    "{\"return\": {}, \"id\": 2}\r\n";

/* A monitor with a script: what is said first, then one answer after each command. */
struct monitor {
    const char *first;
    const char *answers[8];
    size_t n_answers;
    int fd;
    char heard[4096];
    bool got_file;
};

static bool hear(struct monitor *monitor)
{
    char bytes[1024], control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof(bytes) - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(monitor->fd, &message, MSG_CMSG_CLOEXEC);

    if (got <= 0)
        return false;
    bytes[got] = '\0';
    size_t len = strlen(monitor->heard);
    snprintf(monitor->heard + len, sizeof(monitor->heard) - len, "%s", bytes);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_type == SCM_RIGHTS) {
        int fd;
        memcpy(&fd, CMSG_DATA(head), sizeof(fd));
        monitor->got_file = write(fd, "state", 5) == 5;
        close(fd);
    }
    return true;
}

static void *monitor_main(void *arg)
{
    struct monitor *monitor = arg;

    (void)!write(monitor->fd, monitor->first, strlen(monitor->first));
    for (size_t i = 0; i < monitor->n_answers && hear(monitor); i++)
        (void)!write(monitor->fd, monitor->answers[i], strlen(monitor->answers[i]));
    close(monitor->fd);
    return NULL;
}

static bool monitor_start(struct monitor *monitor, pthread_t *thread, struct qmp *qmp)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    monitor->fd = pair[1];
    qmp_init(qmp, pair[0]);
    return pthread_create(thread, NULL, monitor_main, monitor) == 0;
}

static int64_t soon(void)
{
    return time_boot_ms() + PATIENCE_MS;
}

TEST(commands_go_out_and_answers_come_back)
{
    struct monitor monitor = {
        .first = GREETING,
        .answers = {"{\"return\": {}, \"id\": 1}\r\n", event_then_answer,
                    "{\"return\": {\"status\": \"paused\"}, \"id\": 3}\r\n", "{\"return\": {\"fd\": 9, \"fdset-id\": 1}, \"id\": 4}\r\n",
                    "{\"return\": {}, \"id\": 5}\r\n", "{\"return\": {}, \"id\": 6}\r\n",
                    "{\"return\": {}, \"id\": 7}\r\n"},
        .n_answers = 7,
    };
    AUTO(qmp_finish) struct qmp qmp = {.fd = -1};
    char status[QMP_STATUS_ROOM] = "", state[8] = "";
    struct error err = {0};
    pthread_t thread;
    AUTO_FD int file = memfd_create("state", MFD_CLOEXEC);

    CHECK(monitor_start(&monitor, &thread, &qmp));
    bool ok = qmp_greet(&qmp, soon(), &err) && qmp_greet(&qmp, soon(), &err) &&
              qmp_stop(&qmp, soon(), &err) && qmp_status(&qmp, status, soon(), &err) &&
              qmp_save_devices(&qmp, file, soon(), &err) && qmp_cont(&qmp, soon(), &err);
    qmp_finish(&qmp);
    pthread_join(thread, NULL);
    CHECK_STR(err.text, "");
    CHECK(ok && monitor.got_file && pread(file, state, 5, 0) == 5);
    CHECK_STR(status, "paused");
    CHECK_STR(monitor.heard, "{\"execute\":\"qmp_capabilities\",\"arguments\":{},\"id\":1}\n"
                             "{\"execute\":\"stop\",\"arguments\":{},\"id\":2}\n"
                             "{\"execute\":\"query-status\",\"arguments\":{},\"id\":3}\n"
                             "{\"execute\":\"add-fd\",\"arguments\":{\"fdset-id\":1},\"id\":4}\n"
                             "{\"execute\":\"xen-save-devices-state\",\"arguments\":{\"filename\":"
                             "\"/dev/fdset/1\",\"live\":false},\"id\":5}\n"
                             "{\"execute\":\"remove-fd\",\"arguments\":{\"fdset-id\":1},\"id\":6}\n"
                             "{\"execute\":\"cont\",\"arguments\":{},\"id\":7}\n");
}

/* What a monitor may answer to `stop` that is none, and what is said about it. */
static const struct {
    const char *answer, *said;
    enum error_code code;
} refused[] = {
    {"{\"error\": {\"class\": \"GenericError\", \"desc\": \"no such\"}, \"id\": 2}\r\n",
     "stop: no such",                                                                                                                 ERR_INTERNAL   },
    {"{\"return\": {}, \"id\": 1}\r\n",                                                  "stop: the monitor answered something else", ERR_INVALID    },
    {"{\"return\": {}}\r\n",                                                             "stop: the monitor answered something else", ERR_INVALID    },
    {GREETING,                                                                           "stop: the monitor answered something else", ERR_INVALID    },
    {"{\"return\": {}, \"event\": \"STOP\", \"id\": 2}\r\n",
     "stop: the monitor said 2 things at once",                                                                                       ERR_INVALID    },
    {"{\"id\": 2}\r\n",                                                                  "stop: the monitor said 0 things at once",   ERR_INVALID    },
    {"",                                                                                 "stop: the monitor is gone",                 ERR_UNAVAILABLE},
    {"{\"return\": {}, \"id\": 2",                                                       "stop: the monitor is gone",                 ERR_UNAVAILABLE},
};

TEST(an_answer_that_is_none_is_refused)
{
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        struct monitor monitor = {
            .first = GREETING,
            .answers = {"{\"return\": {}, \"id\": 1}\r\n", refused[i].answer},
            .n_answers = 2,
        };
        AUTO(qmp_finish) struct qmp qmp = {.fd = -1};
        struct error err = {0};
        pthread_t thread;

        CHECK(monitor_start(&monitor, &thread, &qmp));
        bool greeted = qmp_greet(&qmp, soon(), &err);
        bool is_stopped = greeted && qmp_stop(&qmp, soon(), &err);
        qmp_finish(&qmp);
        pthread_join(thread, NULL);
        CHECK(greeted && !is_stopped && err.code == refused[i].code);
        CHECK_STR(err.text, refused[i].said);
    }
}

TEST(a_line_without_end_is_refused_at_its_bound)
{
    AUTO_FREE char *flood = alloc(FLOOD);
    AUTO(qmp_finish) struct qmp qmp = {.fd = -1};
    struct error err = {0};
    pthread_t thread;

    memset(flood, ' ', FLOOD);
    flood[FLOOD - 1] = '\0';
    struct monitor monitor = {.first = flood};
    CHECK(monitor_start(&monitor, &thread, &qmp));
    bool greeted = qmp_greet(&qmp, soon(), &err);
    qmp_finish(&qmp);
    pthread_join(thread, NULL);
    CHECK(!greeted && err.code == ERR_TOO_LARGE);
}

TEST(a_silent_monitor_is_given_up_at_the_deadline)
{
    AUTO(qmp_finish) struct qmp qmp = {.fd = -1};
    struct error err = {0};
    int pair[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    AUTO_FD int theirs = pair[1];
    qmp_init(&qmp, pair[0]);
    CHECK(theirs >= 0 && !qmp_greet(&qmp, time_boot_ms() + SHORT_MS, &err));
    CHECK(err.code == ERR_TIMEOUT);
    qmp_finish(&qmp);
    CHECK(!qmp_stop(&qmp, soon(), &err) && err.code == ERR_UNAVAILABLE);
}

TEST_MAIN()
