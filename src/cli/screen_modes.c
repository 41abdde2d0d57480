#include "cli/screen_modes.h"

#include <stdio.h>

/* Private modes that outlive a program, and whether they are on by themselves. */
static const struct {
    unsigned number;
    bool is_on;
} known[] = {
    {1,    false}, /* cursor keys of applications */
    {9,    false}, /* the mouse, in its many ways */
    {1000, false},
    {1002, false},
    {1003, false},
    {1004, false}, /* focus */
    {1005, false},
    {1006, false},
    {1015, false},
    {2004, false}, /* marks around pastes */
    {7,    true }, /* lines wrap */
    {25,   true }, /* the cursor is seen */
    {47,   false}, /* the other screen, last */
    {1047, false},
    {1049, false},
};

_Static_assert(COUNT_OF(known) <= SCREEN_MODES, "every mode has a place");

static void set(struct screen_modes *modes, unsigned number, bool is_on)
{
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (known[i].number == number)
            modes->is_changed[i] = known[i].is_on != is_on;
}

static void keep_number(struct screen_modes *modes)
{
    if (modes->n_numbers < COUNT_OF(modes->numbers))
        modes->numbers[modes->n_numbers++] = modes->number;
    modes->number = 0;
}

static void finish(struct screen_modes *modes, char last)
{
    keep_number(modes);
    if (modes->state == SCREEN_PRIVATE && (last == 'h' || last == 'l'))
        for (size_t i = 0; i < modes->n_numbers; i++)
            set(modes, modes->numbers[i], last == 'h');
    if (modes->state == SCREEN_BRACKET && last == 'm')
        modes->has_colour = modes->n_numbers != 1 || modes->numbers[0] != 0;
    modes->state = SCREEN_TEXT;
}

static void begin(struct screen_modes *modes, char byte)
{
    modes->state = SCREEN_TEXT;
    if (byte == '[')
        modes->state = SCREEN_BRACKET;
    if (byte == '\x1b')
        modes->state = SCREEN_ESCAPE;
    if (byte == 'c') /* everything anew */
        *modes = (struct screen_modes){0};
    modes->number = 0;
    modes->n_numbers = 0;
}

static void read_parameter(struct screen_modes *modes, char byte)
{
    if (byte == '\x1b')
        modes->state = SCREEN_ESCAPE;
    else if (byte >= '0' && byte <= '9')
        modes->number = modes->number < 10000 ? modes->number * 10 + (unsigned)(byte - '0') : 10000;
    else if (byte == ';' || byte == ':')
        keep_number(modes);
    else if (byte == '?' && modes->state == SCREEN_BRACKET)
        modes->state = SCREEN_PRIVATE;
    else if (byte >= '@')
        finish(modes, byte);
}

void screen_modes_read(struct screen_modes *modes, struct str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (modes->state == SCREEN_TEXT) {
            const char *next = memchr(bytes.ptr + i, '\x1b', bytes.len - i);

            if (!next)
                return;
            i = (size_t)(next - bytes.ptr);
            modes->state = SCREEN_ESCAPE;
        } else if (modes->state == SCREEN_ESCAPE) {
            begin(modes, bytes.ptr[i]);
        } else {
            read_parameter(modes, bytes.ptr[i]);
        }
    }
}

size_t screen_modes_restore(const struct screen_modes *modes, char text[SCREEN_RESTORE_MAX])
{
    size_t len = 0;

    if (modes->has_colour)
        len += (size_t)snprintf(text, SCREEN_RESTORE_MAX, "\x1b[0m");
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (modes->is_changed[i])
            len += (size_t)snprintf(text + len, SCREEN_RESTORE_MAX - len, "\x1b[?%u%c",
                                    known[i].number, known[i].is_on ? 'h' : 'l');
    return len;
}
