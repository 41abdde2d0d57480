#include "guest/terminal.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "base/own.h"
#include "guest/stream.h"

bool terminal_needs_watcher(int controlling_fd)
{
    pid_t group;

    return ioctl(controlling_fd, TIOCGPGRP, &group) != 0;
}

/* It is in a group of its own and takes no signals: what it sends is not for itself. */
static _Noreturn void watch(int slave_fd, int pipe_fd)
{
    unsigned char number;
    sigset_t all;
    ssize_t got;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    for (int fd = 0; fd < 64; fd++) {
        if (fd != slave_fd && fd != pipe_fd)
            close(fd);
    }
    while ((got = read(pipe_fd, &number, 1)) == 1 || (got < 0 && errno == EINTR)) {
        pid_t group = got == 1 ? tcgetpgrp(slave_fd) : 0;
        if (group > 1)
            kill(-group, number);
    }
    _exit(0);
}

bool terminal_watch(int slave_fd, int pipe_fd)
{
    pid_t pid = fork();

    if (pid == 0)
        watch(slave_fd, pipe_fd);
    return pid > 0;
}

/* The group has another number here than there, and the kernel translates. */
bool terminal_signal(struct program *program, int number)
{
    unsigned char byte = (unsigned char)number;
    pid_t group = 0;

    if (program->watcher_fd >= 0)
        return write(program->watcher_fd, &byte, 1) == 1;
    return program->out[0].fd >= 0 && ioctl(program->out[0].fd, TIOCGPGRP, &group) == 0 &&
           group > 1 && kill(-group, number) == 0;
}

void terminal_resize(struct program *program, uint32_t cols, uint32_t rows)
{
    struct winsize size = {.ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows};

    if (program->out[0].fd < 0 || ioctl(program->out[0].fd, TIOCSWINSZ, &size) != 0)
        return;
    if (program->watcher_fd >= 0)
        (void)terminal_signal(program, SIGWINCH);
}

/* The signal a character stands for, or 0. */
static int signal_of(const struct termios *modes, char typed)
{
    static const struct {
        int place, number;
    } meanings[] = {
        {VINTR, SIGINT },
        {VQUIT, SIGQUIT},
        {VSUSP, SIGTSTP},
    };

    for (size_t i = 0; i < COUNT_OF(meanings); i++) {
        if (modes->c_cc[meanings[i].place] == (unsigned char)typed && typed)
            return meanings[i].number;
    }
    return 0;
}

struct str terminal_filter(struct program *program, struct str typed, struct arena *arena)
{
    struct termios modes;
    size_t n = 0;

    if (program->watcher_fd < 0 || tcgetattr(program->out[0].fd, &modes) != 0 ||
        !(modes.c_lflag & ISIG))
        return typed;
    char *rest = arena_alloc(arena, typed.len + 1);
    for (size_t i = 0; i < typed.len; i++) {
        int number = signal_of(&modes, typed.ptr[i]);
        if (number == 0 || !terminal_signal(program, number)) {
            rest[n++] = typed.ptr[i];
            continue;
        }
        if (modes.c_lflag & ECHO)
            output_echo(&program->out[0], typed.ptr[i]);
    }
    return (struct str){rest, n};
}
