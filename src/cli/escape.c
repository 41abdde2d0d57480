#include "cli/escape.h"

static const char paste_begins[] = "\x1b[200~", paste_ends[] = "\x1b[201~";

/* The marks differ in one byte, the next to last. */
static void follow_paste(struct escape *escape, char byte)
{
    const char *mark = escape->is_pasted ? paste_ends : paste_begins;

    if (byte == mark[escape->n_matched])
        escape->n_matched++;
    else
        escape->n_matched = byte == mark[0];
    if (mark[escape->n_matched] != '\0')
        return;
    escape->is_pasted = !escape->is_pasted;
    escape->n_matched = 0;
}

static enum escape_action action_of(char byte)
{
    switch (byte) {
    case '.': return ESCAPE_DETACH;
    case '?': return ESCAPE_HELP;
    default: return ESCAPE_NONE;
    }
}

/* Whether the byte goes through; a tilde that waited may come before it. */
static bool pass(struct escape *escape, char byte, char *out, size_t *len)
{
    bool had_tilde = escape->has_tilde;

    escape->has_tilde = false;
    if (byte == '~' && !had_tilde && !escape->is_in_line && !escape->is_pasted) {
        escape->has_tilde = true;
        return false;
    }
    if (had_tilde && byte != '~')
        out[(*len)++] = '~';
    escape->is_in_line = byte != '\r' && byte != '\n';
    out[(*len)++] = byte;
    return true;
}

enum escape_action escape_take(struct escape *escape, struct str bytes, size_t *used, char *out,
                               size_t *len)
{
    *len = 0;
    for (*used = 0; *used < bytes.len;) {
        char byte = bytes.ptr[(*used)++];

        if (escape->has_tilde && action_of(byte) != ESCAPE_NONE) {
            escape->has_tilde = escape->is_in_line = false;
            return action_of(byte);
        }
        if (pass(escape, byte, out, len))
            follow_paste(escape, byte);
    }
    return ESCAPE_NONE;
}
