#include "image/challenge.h"

enum { VALUE_MAX = 1024 };

enum parameter { PARAMETER_READ, PARAMETER_NONE, PARAMETER_BAD };

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_token(char c)
{
    return is_alphanumeric(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token68(char c)
{
    return is_alphanumeric(c) || (c && strchr("-._~+/", c));
}

static void drop(struct str *rest, size_t n)
{
    *rest = (struct str){rest->ptr + n, rest->len - n};
}

static void skip(struct str *rest, struct str set)
{
    while (rest->len && memchr(set.ptr, rest->ptr[0], set.len))
        drop(rest, 1);
}

static struct str cut(struct str *rest, bool (*belongs)(char))
{
    struct str word = {rest->ptr, 0};

    while (word.len < rest->len && belongs(rest->ptr[word.len]))
        word.len++;
    drop(rest, word.len);
    return word;
}

/* Behind the opening quote, up to and with the closing one. */
static bool read_quoted(struct str *rest, char value[VALUE_MAX])
{
    size_t len = 0;

    while (rest->len && rest->ptr[0] != '"') {
        if (rest->ptr[0] == '\\')
            drop(rest, 1);
        if (!rest->len || len + 1 == VALUE_MAX || (unsigned char)rest->ptr[0] < ' ' ||
            rest->ptr[0] == 0x7f)
            return false;
        value[len++] = rest->ptr[0];
        drop(rest, 1);
    }
    if (!rest->len)
        return false;
    drop(rest, 1);
    value[len] = '\0';
    return true;
}

static bool read_value(struct str *rest, char value[VALUE_MAX])
{
    if (rest->len && rest->ptr[0] == '"') {
        drop(rest, 1);
        return read_quoted(rest, value);
    }
    struct str word = cut(rest, is_token);
    if (word.len == 0 || word.len >= VALUE_MAX)
        return false;
    memcpy(value, word.ptr, word.len);
    value[word.len] = '\0';
    return true;
}

/* name=value; anything else leaves *rest where it was: it is the next scheme. */
static enum parameter read_parameter(struct str *rest, struct str *name, char value[VALUE_MAX])
{
    struct str ahead = *rest;

    skip(&ahead, STR(" \t,"));
    *name = cut(&ahead, is_token);
    skip(&ahead, STR(" \t"));
    if (!name->len || !ahead.len || ahead.ptr[0] != '=')
        return PARAMETER_NONE;
    drop(&ahead, 1);
    skip(&ahead, STR(" \t"));
    if (!read_value(&ahead, value))
        return PARAMETER_BAD;
    skip(&ahead, STR(" \t"));
    if (ahead.len && ahead.ptr[0] != ',')
        return PARAMETER_BAD;
    *rest = ahead;
    return PARAMETER_READ;
}

static bool keep(struct challenge *found, struct str name, const char *value)
{
    size_t len = strlen(value);

    if (str_equal_nocase(name, STR("realm")))
        memcpy(found->realm, value, len + 1);
    if (!str_equal_nocase(name, STR("service")))
        return true;
    if (len >= sizeof found->service)
        return false;
    memcpy(found->service, value, len + 1);
    return true;
}

/* A scheme may be followed by one word instead of parameters ("Negotiate abc=="). */
static void skip_token68(struct str *rest)
{
    struct str ahead = *rest;
    struct str word = cut(&ahead, is_token68);

    skip(&ahead, STR("="));
    skip(&ahead, STR(" \t"));
    if (word.len && (!ahead.len || ahead.ptr[0] == ','))
        *rest = ahead;
}

static bool read_challenge(struct str *rest, struct challenge *found)
{
    struct str scheme = cut(rest, is_token), name;
    char value[VALUE_MAX];
    enum parameter next;

    if (!scheme.len || (rest->len && !strchr(" \t,", rest->ptr[0])))
        return false;
    if (str_equal_nocase(scheme, STR("basic")))
        found->scheme = CHALLENGE_BASIC;
    if (str_equal_nocase(scheme, STR("bearer")))
        found->scheme = CHALLENGE_BEARER;
    skip(rest, STR(" \t"));
    skip_token68(rest);
    while ((next = read_parameter(rest, &name, value)) == PARAMETER_READ)
        if (!keep(found, name, value))
            return false;
    return next != PARAMETER_BAD;
}

bool challenge_read(struct str line, struct challenge *challenge)
{
    struct challenge best = *challenge;

    for (skip(&line, STR(" \t,")); line.len; skip(&line, STR(" \t,"))) {
        struct challenge found = {0};
        if (!read_challenge(&line, &found))
            return false;
        if (found.scheme > best.scheme)
            best = found;
    }
    *challenge = best;
    return true;
}
