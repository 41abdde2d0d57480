#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/own.h"

/* Beyond the struct, for the handler of a crash. */
static struct termios before;
static volatile sig_atomic_t is_raw;

static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH, SIGPIPE};
static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static void restore(void)
{
    if (is_raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    is_raw = 0;
}

static void make_raw(void)
{
    struct termios raw = before;

    cfmakeraw(&raw);
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0)
        is_raw = 1;
}

/* The disposition is the default again by now: raising it ends the process as it would have. */
static void on_crash(int number)
{
    restore();
    (void)raise(number);
}

static void watch_crashes(void)
{
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_RESETHAND | SA_NODEFER};

    for (size_t i = 0; i < COUNT_OF(crashes); i++)
        (void)sigaction(crashes[i], &action, NULL);
}

bool terminal_open(struct terminal *terminal, struct error *err)
{
    sigset_t set;

    terminal->signals = -1;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return error_set(err, ERR_INVALID,
                         "this needs a terminal on stdin and stdout; for scripts there is `helmr "
                         "workspace exec`");
    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return error_errno(err, "the terminal");
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT_OF(taken); i++)
        sigaddset(&set, taken[i]);
    (void)pthread_sigmask(SIG_BLOCK, &set, &terminal->former);
    terminal->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (terminal->signals < 0) {
        (void)pthread_sigmask(SIG_SETMASK, &terminal->former, NULL);
        return error_errno(err, "signalfd");
    }
    watch_crashes();
    make_raw();
    return true;
}

void terminal_finish(struct terminal *terminal)
{
    if (terminal->signals < 0)
        return;
    restore();
    auto_close(&terminal->signals);
    terminal->signals = -1;
    (void)pthread_sigmask(SIG_SETMASK, &terminal->former, NULL);
}

void terminal_size(int *cols, int *rows)
{
    struct winsize size = {0};

    *cols = 80;
    *rows = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        *cols = size.ws_col;
        *rows = size.ws_row;
    }
}

int terminal_signal(struct terminal *terminal)
{
    struct signalfd_siginfo info;

    if (read(terminal->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return 0;
    if (info.ssi_signo != SIGTSTP)
        return (int)info.ssi_signo;
    restore();
    (void)kill(getpid(), SIGSTOP);
    make_raw();
    return SIGCONT;
}

void terminal_die(struct terminal *terminal, int number)
{
    terminal_finish(terminal);
    (void)sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    (void)kill(getpid(), number);
    _exit(128 + number);
}
