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

/* The length of the character at the front, or 0 when it is none. */
static size_t character_len(struct str bytes)
{
    unsigned char first = (unsigned char)bytes.ptr[0];
    size_t len = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (first > 0xF4 || len > bytes.len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if (((unsigned char)bytes.ptr[i] & 0xC0) != 0x80)
            return 0;
    bool is_control = len == 1 && first < 0x20 && first != '\n' && first != '\t' && first != '\r';
    return is_control || first == 0x7F ? 0 : len;
}

void html_bytes(struct html *html, struct str bytes)
{
    size_t from = 0, i = 0;
    while (i < bytes.len) {
        size_t len = character_len((struct str){bytes.ptr + i, bytes.len - i});
        if (len == 0) {
            html_text(html, (struct str){bytes.ptr + from, i - from});
            put(html, STR("\xEF\xBF\xBD"));
            from = i + 1;
            len = 1;
        }
        i += len;
    }
    html_text(html, (struct str){bytes.ptr + from, bytes.len - from});
}
