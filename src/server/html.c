#include "server/html.h"

struct html html_begin(struct buf *out)
{
    return (struct html){.out = out};
}

bool html_end(struct html *html, struct error *err)
{
    if (html->failed)
        *err = html->err;
    return !html->failed;
}

static void put(struct html *html, struct str text)
{
    if (!html->failed && !buf_append(html->out, text, &html->err))
        html->failed = true;
}

void html_markup(struct html *html, const char *markup)
{
    put(html, str_of(markup));
}

static struct str escape_of(char c)
{
    switch (c) {
    case '&': return STR("&amp;");
    case '<': return STR("&lt;");
    case '>': return STR("&gt;");
    case '"': return STR("&quot;");
    case '\'': return STR("&#39;");
    default: return (struct str){0};
    }
}

void html_text(struct html *html, struct str text)
{
    size_t from = 0;
    for (size_t i = 0; i < text.len; i++) {
        struct str escape = escape_of(text.ptr[i]);
        if (!escape.ptr)
            continue;
        put(html, (struct str){text.ptr + from, i - from});
        put(html, escape);
        from = i + 1;
    }
    put(html, (struct str){text.ptr + from, text.len - from});
}

void html_string(struct html *html, const char *text)
{
    if (text)
        html_text(html, str_of(text));
}
