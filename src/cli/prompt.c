#include "cli/prompt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/own.h"
#include "base/secret.h"

enum { EXIT_INTERRUPTED = 130 };

struct prompt {
    const char *question;
    struct termios shown, hidden;
    sigset_t taken, former;
    int signals; /* signalfd */
};

static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};

static void ask(const struct prompt *prompt)
{
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &prompt->hidden);
    fprintf(stderr, "%s", prompt->question);
    fflush(stderr);
}

static void restore(const struct prompt *prompt)
{
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &prompt->shown);
    fprintf(stderr, "\n");
    fflush(stderr);
}

static void prompt_finish(struct prompt *prompt)
{
    if (prompt->signals < 0)
        return;
    restore(prompt);
    (void)pthread_sigmask(SIG_SETMASK, &prompt->former, NULL);
    auto_close(&prompt->signals);
}

static bool prompt_open(struct prompt *prompt, struct error *err)
{
    prompt->signals = -1;
    if (tcgetattr(STDIN_FILENO, &prompt->shown) != 0)
        return error_errno(err, "the terminal");
    prompt->hidden = prompt->shown;
    prompt->hidden.c_lflag &= ~(tcflag_t)ECHO;
    prompt->hidden.c_lflag |= ICANON | ISIG;
    sigemptyset(&prompt->taken);
    for (size_t i = 0; i < COUNT_OF(taken); i++)
        sigaddset(&prompt->taken, taken[i]);
    (void)pthread_sigmask(SIG_BLOCK, &prompt->taken, &prompt->former);
    prompt->signals = signalfd(-1, &prompt->taken, SFD_CLOEXEC);
    if (prompt->signals >= 0)
        return true;
    (void)pthread_sigmask(SIG_SETMASK, &prompt->former, NULL);
    return error_errno(err, "signalfd");
}

/* Stops or ends as the signal wants it, with the terminal in order; asks again when continued. */
static void obey(const struct prompt *prompt)
{
    struct signalfd_siginfo info;

    if (read(prompt->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;

    int number = (int)info.ssi_signo;

    restore(prompt);
    if (number == SIGINT)
        _exit(EXIT_INTERRUPTED);
    if (number == SIGTSTP) {
        (void)kill(getpid(), SIGSTOP);
        ask(prompt);
        return;
    }
    (void)sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &prompt->former, NULL);
    (void)kill(getpid(), number);
    _exit(128 + number);
}

/* One line; a terminal gives no more than that at once. */
static bool read_line(const struct prompt *prompt, struct buf *answer, struct error *err)
{
    struct pollfd ready[] = {
        {.fd = STDIN_FILENO,    .events = POLLIN},
        {.fd = prompt->signals, .events = POLLIN},
    };
    char line[PROMPT_MAX + 1];

    for (;;) {
        if (poll(ready, COUNT_OF(ready), -1) < 0 && errno != EINTR)
            return error_errno(err, "poll");
        if (ready[1].revents)
            obey(prompt);
        else if (ready[0].revents)
            break;
    }

    ssize_t got = read(STDIN_FILENO, line, sizeof line);

    if (got < 0)
        return error_errno(err, "reading from the terminal");
    if (got >= PROMPT_MAX)
        return error_set(err, ERR_TOO_LARGE,
                         "that is too long to be typed: send it through a pipe");
    bool ok = buf_append(answer, str_trim((struct str){line, (size_t)got}, STR("\r\n")), err);
    bytes_wipe(line, sizeof line);
    return ok;
}

bool prompt_hidden(const char *question, struct buf *answer, struct error *err)
{
    AUTO(prompt_finish) struct prompt prompt = {.question = question};

    if (!prompt_open(&prompt, err))
        return false;
    ask(&prompt);
    return read_line(&prompt, answer, err);
}
