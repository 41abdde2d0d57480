/* helmr-guest: the agent, or with --init the PID 1 of one program. As /init of a kernel it is the
 * agent of a machine and takes no arguments. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/own.h"
#include "guest/agent.h"
#include "guest/boot.h"
#include "guest/init.h"
#include "guest/room_init.h"

static int usage(void)
{
    dprintf(STDERR_FILENO, "usage: helmr-guest --channel stdio|fd:N [--mask-proc]\n");
    return 2;
}

static bool parse_number(const char *text, long *number)
{
    char *end;

    *number = strtol(text, &end, 10);
    return *text && !*end && *number >= 0 && *number < 1 << 22;
}

/* Moves a descriptor out of the way of 0 to 2 and of programs. */
static bool adopt(int from, int *to)
{
    *to = fcntl(from, F_DUPFD_CLOEXEC, 10);
    return *to >= 0 && fcntl(*to, F_SETFL, O_NONBLOCK) == 0;
}

static bool open_channel(const char *where, int *in, int *out)
{
    long number;

    if (strcmp(where, "stdio") == 0)
        return adopt(STDIN_FILENO, in) && adopt(STDOUT_FILENO, out);
    if (strncmp(where, "fd:", 3) != 0 || !parse_number(where + 3, &number) ||
        !adopt((int)number, in) || !adopt((int)number, out))
        return false;
    close((int)number);
    return true;
}

/* Programs inherit nothing: stdin and stdout of the agent point nowhere from here on. */
static bool close_stdio(void)
{
    AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    return null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0;
}

static bool prepare(struct agent *agent, int in, int out)
{
    channel_init(&agent->channel, in, out, SIDE_GUEST);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    prctl(PR_SET_DUMPABLE, 0);
    /* A mount made for one program must not be seen by the next; gVisor has no propagation. */
    (void)!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    agent->self_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    return agent->self_fd >= 0;
}

/* A machine has no use without its agent: it ends with it. */
static _Noreturn void run_machine(struct agent *agent)
{
    static struct boot boot;
    struct error err;

    if (!boot_begin(&boot, &err)) {
        dprintf(STDERR_FILENO, "helmr-guest: %s\n", err.text);
        boot_end();
    }
    agent->boot = &boot;
    agent->mask = MASK_MACHINE;
    if (prepare(agent, boot.transport.in, boot.transport.out)) {
        boot_finish(&boot);
        agent_run(agent);
    }
    boot_end();
}

int main(int argc, char **argv)
{
    struct agent agent = {
        .self_fd = -1,
        .sandbox = {.upper_fd = -1, .lower_fd = -1, .merged_fd = -1, .layer_fd = -1},
    };
    const char *where = NULL;
    int in, out;
    long main_pid;

    if (getpid() == 1 && strcmp(argv[0], "/init") == 0)
        run_machine(&agent);
    if (argc >= 3 && strcmp(argv[1], "--init") == 0 && parse_number(argv[2], &main_pid)) {
        bool has_freezer = argc == 4 && strcmp(argv[3], "--freezer") == 0;
        return main_pid ? init_main((pid_t)main_pid, has_freezer) : room_main(has_freezer);
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--channel") == 0 && i + 1 < argc)
            where = argv[++i];
        else if (strcmp(argv[i], "--mask-proc") == 0)
            agent.mask = MASK_SHARED;
        else
            return usage();
    }
    if (!where)
        return usage();
    if (!open_channel(where, &in, &out) || !close_stdio() || !prepare(&agent, in, out)) {
        dprintf(STDERR_FILENO, "helmr-guest: the channel or /proc cannot be opened\n");
        return 1;
    }
    return agent_run(&agent);
}
