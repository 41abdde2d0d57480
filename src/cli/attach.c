#include "cli/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"
#include "cli/attach_state.h"

enum {
    KEYS = 16 * 1024,
    UNSENT_MAX = 256 * 1024, /* a long paste waits for the server */
    TELL_MS = 2000,          /* shorter breaks are nobody's business */
    LOOK_MS = 5000,
};

/* In a terminal that is raw, between the output of others. */
static void tell(const char *text)
{
    fprintf(stderr, "\r\n[helmr: %s]\r\n", text);
    fflush(stderr);
}

static void take_keys(struct attached *attached)
{
    char keys[KEYS], out[KEYS + 1];
    ssize_t got = read(STDIN_FILENO, keys, sizeof keys);
    struct str rest = {keys, got > 0 ? (size_t)got : 0};

    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
        attached->is_over = attached->is_detached = true;
    while (rest.len > 0 && !attached->is_over) {
        size_t used, len;
        enum escape_action action = escape_take(&attached->escape, rest, &used, out, &len);

        attach_line_type(attached, (struct str){out, len});
        if (action == ESCAPE_DETACH)
            attached->is_over = attached->is_detached = true;
        else if (action == ESCAPE_HELP)
            tell("~. detaches, the program goes on; ~~ is one ~; ~? is this");
        rest = (struct str){rest.ptr + used, rest.len - used};
    }
}

static void restore_screen(struct attached *attached)
{
    char text[SCREEN_RESTORE_MAX];
    size_t len = screen_modes_restore(&attached->modes, text);
    struct error ignored;

    (void)!fd_write_all(STDOUT_FILENO, (struct str){text, len}, &ignored);
}

static void take_signal(struct attached *attached)
{
    int number = terminal_signal(&attached->terminal);

    switch (number) {
    case 0:
    case SIGPIPE: break;
    case SIGWINCH: attach_line_resize(attached); break;
    case SIGCONT:
        attached->attach->is_repainted = true;
        attach_line_drop(attached);
        break;
    default: restore_screen(attached); terminal_die(&attached->terminal, number);
    }
}

static bool can_take_keys(const struct attached *attached)
{
    return attached->line ? websocket_client_unsent(attached->line) < UNSENT_MAX
                          : attached->kept.len < ATTACH_KEPT_MAX / 2;
}

static int patience(const struct attached *attached)
{
    int64_t left = attached->try_ms - time_boot_ms();

    if (attached->line)
        return websocket_client_has_more(attached->line) ? 0 : LOOK_MS;
    return left < 0 ? 0 : (int)left;
}

/* Waits for keys, signals and the server, and sees to each. */
static bool turn(struct attached *attached, struct error *err)
{
    struct pollfd all[] = {
        {.fd = can_take_keys(attached) ? STDIN_FILENO : -1, .events = POLLIN},
        {.fd = attached->terminal.signals, .events = POLLIN},
        {.fd = -1},
    };

    if (attached->line) {
        all[2].fd = websocket_client_fd(attached->line);
        all[2].events = websocket_client_wants(attached->line);
    }
    if (poll(all, COUNT_OF(all), patience(attached)) < 0 && errno != EINTR)
        return error_errno(err, "poll");
    if (all[1].revents)
        take_signal(attached);
    if (all[0].revents)
        take_keys(attached);
    if (attached->line)
        attach_line_turn(attached);
    return true;
}

static bool try_to_connect(struct attached *attached, struct error *err)
{
    int64_t now = time_boot_ms();

    if (now >= attached->try_ms && !attach_line_open(attached, err))
        return false;
    if (!attached->line && !attached->was_told && now - attached->lost_ms > TELL_MS) {
        attached->was_told = true;
        tell("connection lost; trying again; ~. detaches");
    }
    return true;
}

static bool run(struct attached *attached, struct error *err)
{
    while (!attached->is_over) {
        if (!attached->line && !try_to_connect(attached, err))
            return false;
        if (!turn(attached, err))
            return false;
    }
    if (attached->has_failed) {
        *err = attached->err;
        return false;
    }
    return true;
}

bool attach_run(struct attach *attach, int *exit_code, struct error *err)
{
    struct attached attached = {.attach = attach, .output_cursor = attach->cursor};

    if (!terminal_open(&attached.terminal, err))
        return false;

    bool ok = attach_line_open(&attached, err) && run(&attached, err);

    attach_line_finish(&attached);
    restore_screen(&attached);
    terminal_finish(&attached.terminal);
    buf_finish(&attached.kept);
    if (attached.is_detached || (!ok && attached.lost_ms > 0))
        fprintf(stderr, "\ndetached; to come back: helmr workspace shell %s --pty %s\n",
                attach->workspace, attach->pty);
    *exit_code = attached.exit_code;
    return ok;
}
