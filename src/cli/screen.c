#include "cli/screen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "base/table.h"
#include "base/time.h"

enum { EXIT_INTERRUPTED = 130, TICK_MS = 100, LOCK_PATIENCE_S = 1 };

#define FRAME_MAX MIB(4)

#define HIDE_CURSOR "\033[?25l"
#define SHOW_CURSOR "\033[?25h"
#define CLEAR_LINE  "\033[K"
#define CLEAR_BELOW "\033[J"

/* What is taken, and whether also when nothing is drawn. */
static const struct {
    int number;
    bool always;
} taken[] = {
    {SIGINT,   true },
    {SIGTERM,  true },
    {SIGHUP,   false},
    {SIGQUIT,  false},
    {SIGTSTP,  false},
    {SIGCONT,  false},
    {SIGWINCH, true }, /* also wakes the thread to its end */
};

bool screen_is_usable(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static struct winsize window_size(void)
{
    struct winsize size = {0};

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    return size;
}

size_t screen_columns(void)
{
    return window_size().ws_col;
}

/* The command line does not set a locale, so it looks for itself. */
static bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *value = getenv(names[i]);

        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

/* A command in the background leaves the terminal to whoever has it. */
static bool is_in_front(void)
{
    pid_t owner = tcgetpgrp(STDERR_FILENO);

    return owner < 0 || owner == getpgrp();
}

static void add(struct buf *out, struct str text)
{
    struct error err;

    /* More than any screen holds: the rest of this picture is not drawn. */
    (void)!buf_append(out, text, &err);
}

/* Back to the first line of the old picture, which the terminal may have folded since. */
static void add_way_up(const struct screen *screen, const struct winsize *size, struct buf *out)
{
    size_t up = live_rows(buf_str(&screen->frame), size->ws_col);
    char code[24];

    if (size->ws_row > 0 && up > size->ws_row - 1U)
        up = size->ws_row - 1U;
    add(out, STR("\r"));
    if (up > 0) {
        snprintf(code, sizeof code, "\033[%zuA", up);
        add(out, str_of(code));
    }
}

static void add_lines(struct str lines, struct buf *out)
{
    struct str line;

    while (lines.len > 0 && str_split(&lines, '\n', &line)) {
        add(out, line);
        add(out, STR(CLEAR_LINE "\n"));
    }
    add(out, STR(CLEAR_BELOW));
}

static void show(const struct buf *out)
{
    struct error err;

    fflush(stderr);
    /* A terminal that has gone is no reason to stop following. */
    (void)!fd_write_all(STDERR_FILENO, buf_str(out), &err);
}

/* Puts a picture in the place of the former one. */
static void replace(struct screen *screen, const struct buf *frame, bool stays)
{
    AUTO(buf_finish) struct buf out = {.max = 2 * FRAME_MAX};
    struct winsize size = window_size();
    bool is_empty = stays || frame->len == 0;

    if (screen->frame.len == 0 && frame->len == 0)
        return;
    add(&out, is_empty ? STR("") : STR(HIDE_CURSOR));
    add_way_up(screen, &size, &out);
    /* Lines that the terminal folded would stay joined under what is drawn over them. */
    add(&out, size.ws_col != screen->columns ? STR(CLEAR_BELOW) : STR(""));
    add_lines(buf_str(frame), &out);
    add(&out, is_empty ? STR(SHOW_CURSOR) : STR(""));
    show(&out);
    screen->columns = size.ws_col;
    screen->frame.len = 0;
    if (!stays)
        add(&screen->frame, buf_str(frame));
}

static void draw(struct screen *screen, bool is_last)
{
    AUTO(buf_finish) struct buf frame = {.max = FRAME_MAX};
    struct winsize size = window_size();
    struct error err;
    const struct live_view view = {
        .columns = size.ws_col,
        .rows = size.ws_row,
        .now_ms = time_boot_ms(),
        .has_colour = screen->has_colour,
        .is_utf8 = screen->is_utf8,
        .is_last = is_last,
    };

    if (!screen->is_live || (!is_last && !is_in_front()))
        return;
    if (live_render(screen->steps, &view, &frame, &err) &&
        (is_last || !str_equal(buf_str(&frame), buf_str(&screen->frame))))
        replace(screen, &frame, is_last);
}

void screen_clear(struct screen *screen)
{
    replace(screen, &(struct buf){0}, false);
}

void screen_settle(struct screen *screen)
{
    draw(screen, true);
    screen->is_live = false;
}

/* The one who holds the lock may be stuck in a write; then the end comes without a word. */
static void say_farewell(struct screen *screen)
{
    struct timespec until = {0};

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOCK_PATIENCE_S;
    if (pthread_mutex_clocklock(&screen->lock, CLOCK_MONOTONIC, &until) != 0)
        return;
    screen_settle(screen);
    fputs(screen->farewell, stderr);
}

static _Noreturn void end_by(struct screen *screen, int number)
{
    sigset_t one;

    say_farewell(screen);
    if (number == SIGINT)
        _exit(EXIT_INTERRUPTED);
    sigemptyset(&one);
    sigaddset(&one, number);
    (void)sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    (void)kill(getpid(), number);
    _exit(128 + number);
}

/* Gives the terminal back until we are continued. */
static void pause_here(struct screen *screen)
{
    const struct timespec patience = {.tv_sec = 1};
    sigset_t continued;

    screen_lock(screen);
    screen_clear(screen);
    screen_unlock(screen);
    sigemptyset(&continued);
    sigaddset(&continued, SIGCONT);
    (void)kill(getpid(), SIGSTOP);
    while (sigtimedwait(&continued, NULL, &patience) < 0 && errno == EINTR)
        continue;
}

/* Somebody stopped us, and others have printed since: the next picture goes below. */
static void draw_anew(struct screen *screen)
{
    screen_lock(screen);
    screen->frame.len = 0;
    screen_unlock(screen);
}

static void take_signal(struct screen *screen, int number)
{
    if (number == SIGTSTP)
        pause_here(screen);
    else if (number == SIGCONT)
        draw_anew(screen);
    else if (number > 0 && number != SIGWINCH)
        end_by(screen, number);
}

static void *watch(void *arg)
{
    struct screen *screen = arg;

    for (;;) {
        const struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
        int number = sigtimedwait(&screen->taken, NULL, &tick);

        /* A stop breaks the wait off; what continued us comes next, before anything is drawn. */
        if (number < 0 && errno == EINTR)
            continue;
        take_signal(screen, number);
        screen_lock(screen);
        bool is_over = screen->is_stopping;
        if (!is_over)
            draw(screen, false);
        screen_unlock(screen);
        if (is_over)
            return NULL;
    }
}

/* What whoever started us had ignored stays ignored. */
static bool is_ignored(int number)
{
    struct sigaction now;

    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void screen_start(struct screen *screen, const struct steps *steps, bool is_live)
{
    *screen = (struct screen){
        .steps = steps,
        .is_live = is_live,
        .is_utf8 = locale_is_utf8(),
        .has_colour = colour_is_wanted(stderr),
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .frame = {.max = FRAME_MAX},
    };
    sigemptyset(&screen->taken);
    for (size_t i = 0; i < COUNT_OF(taken); i++) {
        if ((is_live || taken[i].always) && !is_ignored(taken[i].number))
            sigaddset(&screen->taken, taken[i].number);
    }
    (void)pthread_sigmask(SIG_BLOCK, &screen->taken, &screen->former);
    screen->is_running = pthread_create(&screen->thread, NULL, watch, screen) == 0;
    if (!screen->is_running) {
        screen->is_live = false;
        (void)pthread_sigmask(SIG_SETMASK, &screen->former, NULL);
    }
}

void screen_stop(struct screen *screen)
{
    if (screen->is_running) {
        screen_lock(screen);
        screen_settle(screen);
        screen->is_stopping = true;
        screen_unlock(screen);
        (void)pthread_kill(screen->thread, SIGWINCH);
        (void)pthread_join(screen->thread, NULL);
        (void)pthread_sigmask(SIG_SETMASK, &screen->former, NULL);
    }
    screen->is_running = false;
    buf_finish(&screen->frame);
}

void screen_lock(struct screen *screen)
{
    (void)pthread_mutex_lock(&screen->lock);
}

void screen_unlock(struct screen *screen)
{
    (void)pthread_mutex_unlock(&screen->lock);
}
