#include "cli/replay.h"

static bool is_in(char byte, const char *set)
{
    return byte && strchr(set, byte);
}

/* By the last letter; a private mark other than '?' belongs to questions and extensions. */
static bool bracket_is_silent(const struct replay *replay)
{
    char last = replay->sequence[replay->len - 1], mark = replay->sequence[2];

    if (is_in(mark, "?"))
        return is_in(last, "hlJK");
    for (size_t i = 2; i + 1 < replay->len; i++)
        if (!is_in(replay->sequence[i], "0123456789;:"))
            return false;
    return is_in(last, "@ABCDEFGHIJKLMPSTXZ`abdefghlmrs");
}

static void keep(struct replay *replay, char byte)
{
    if (replay->len < sizeof replay->sequence)
        replay->sequence[replay->len++] = byte;
    else
        replay->sequence[2] = '>'; /* too long to be anything we know */
}

static size_t finish(struct replay *replay, bool passes, char *out)
{
    size_t len = passes ? replay->len : 0;

    memcpy(out, replay->sequence, len);
    replay->state = REPLAY_TEXT;
    replay->len = 0;
    return len;
}

static size_t take_escape(struct replay *replay, char byte, char *out)
{
    keep(replay, byte);
    if (byte == '[')
        replay->state = REPLAY_BRACKET;
    else if (is_in(byte, "P]_^X"))
        replay->state = REPLAY_STRING;
    else if (is_in(byte, "()*+") || (byte >= ' ' && byte <= '/'))
        return 0; /* one more byte belongs to it */
    else
        return finish(replay, byte != 'Z' && byte != '\x1b', out);
    return 0;
}

static size_t take(struct replay *replay, char byte, char *out)
{
    switch (replay->state) {
    case REPLAY_TEXT:
        if (byte != '\x1b') {
            *out = byte;
            return byte != '\x05';
        }
        replay->state = REPLAY_ESCAPE;
        keep(replay, byte);
        return 0;
    case REPLAY_ESCAPE: return take_escape(replay, byte, out);
    case REPLAY_BRACKET:
        keep(replay, byte);
        return byte >= '@' && byte <= '~' ? finish(replay, bracket_is_silent(replay), out) : 0;
    case REPLAY_STRING:
        if (byte == '\x1b')
            replay->state = REPLAY_STRING_END;
        return byte == '\a' ? finish(replay, false, out) : 0;
    case REPLAY_STRING_END: return finish(replay, false, out);
    }
    return 0;
}

size_t replay_pass(struct replay *replay, struct str bytes, char *out)
{
    size_t len = 0;

    for (size_t i = 0; i < bytes.len; i++)
        len += take(replay, bytes.ptr[i], out + len);
    return len;
}
