#include "cli/scan.h"

static void skip_blanks(struct str *text)
{
    while (text->len > 0 && strchr(" \t\r\n", text->ptr[0]) && text->ptr[0])
        *text = (struct str){text->ptr + 1, text->len - 1};
}

/* Takes one of the marks off the front; false when there is none. */
static bool take_mark(struct str *text, const char *marks)
{
    skip_blanks(text);
    if (text->len == 0 || !text->ptr[0] || !strchr(marks, text->ptr[0]))
        return false;
    *text = (struct str){text->ptr + 1, text->len - 1};
    skip_blanks(text);
    return true;
}

/* With both quotes. */
static size_t text_len(struct str text)
{
    for (size_t i = 1; i < text.len; i++) {
        if (text.ptr[i] == '\\')
            i++;
        else if (text.ptr[i] == '"')
            return i + 1;
    }
    return text.len;
}

static size_t container_len(struct str text)
{
    size_t depth = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (c == '"')
            i += text_len((struct str){text.ptr + i, text.len - i}) - 1;
        else if (c == '[' || c == '{')
            depth++;
        else if ((c == ']' || c == '}') && --depth == 0)
            return i + 1;
    }
    return text.len;
}

static struct str take_value(struct str *rest)
{
    size_t len = 0;

    if (rest->len == 0)
        return *rest;
    if (rest->ptr[0] == '"')
        len = text_len(*rest);
    else if (rest->ptr[0] == '[' || rest->ptr[0] == '{')
        len = container_len(*rest);
    else
        while (len < rest->len && !strchr(",]} \t\r\n", rest->ptr[len]))
            len++;

    struct str value = {rest->ptr, len};

    *rest = (struct str){rest->ptr + len, rest->len - len};
    return value;
}

bool scan_item(struct str *rest, struct str *item)
{
    if (!take_mark(rest, "[,") || rest->len == 0 || rest->ptr[0] == ']')
        return false;
    *item = take_value(rest);
    return true;
}

bool scan_member(struct str *rest, struct str *key, struct str *value)
{
    if (!take_mark(rest, "{,") || rest->len == 0 || rest->ptr[0] != '"')
        return false;
    *key = take_value(rest);
    if (!take_mark(rest, ":"))
        return false;
    *value = take_value(rest);
    return true;
}
