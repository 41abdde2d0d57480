#include "server/html_page.h"

#include "base/encode.h"
#include "server/headers.h"

static void begin(struct html *html, struct response *res)
{
    *html = html_begin(response_body(res));
    html_markup(html, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
}

static void open_body(struct html *html, const char *title)
{
    html_markup(html, "<title>");
    html_string(html, title);
    html_markup(html, " · Helmr</title><link rel=\"stylesheet\" href=\"/style.css\"></head><body>"
                      "<header><a href=\"/\"><img src=\"/favicon.svg\" alt=\"\" width=\"22\" "
                      "height=\"22\">Helmr</a></header><main>");
}

bool page_open(struct html *html, struct response *res, const char *title, struct error *err)
{
    if (!headers_add_page(res, err))
        return false;
    begin(html, res);
    open_body(html, title);
    return true;
}

bool page_open_scripted(struct html *html, struct response *res, const char *title,
                        const char *script, struct error *err)
{
    if (!headers_add_scripted_page(res, err))
        return false;
    begin(html, res);
    html_markup(html, "<script defer src=\"");
    html_string(html, script);
    html_markup(html, "\"></script>");
    open_body(html, title);
    return true;
}

bool page_close(struct html *html, struct response *res, int status, struct error *err)
{
    html_markup(html, "</main></body></html>\n");
    response_bytes(res, status, "text/html; charset=utf-8");
    return html_end(html, err);
}

bool page_redirect(struct response *res, const char *to, struct error *err)
{
    response_empty(res, 303);
    return response_header(res, "Location", str_of(to), err);
}

static void write_attribute(struct html *html, const char *name, struct str value)
{
    html_markup(html, " ");
    html_markup(html, name);
    html_markup(html, "=\"");
    html_text(html, value);
    html_markup(html, "\"");
}

static void write_input(struct html *html, const struct form_input *input, bool is_first)
{
    if (!input->label) {
        html_markup(html, "<input type=\"hidden\"");
        write_attribute(html, "name", str_of(input->name));
        write_attribute(html, "value", input->value);
        html_markup(html, ">");
        return;
    }
    html_markup(html, "<label>");
    html_string(html, input->label);
    html_markup(html, "<input required");
    write_attribute(html, "type", str_of(input->type));
    write_attribute(html, "name", str_of(input->name));
    write_attribute(html, "autocomplete", str_of(input->autocomplete));
    if (input->value.len > 0)
        write_attribute(html, "value", input->value);
    html_markup(html, is_first ? " autofocus></label>" : "></label>");
}

static void write_buttons(struct html *html, const struct form *form)
{
    for (size_t i = 0; i < FORM_BUTTONS_MAX && form->buttons[i].label; i++) {
        html_markup(html, i == 0 ? "<button" : "<button class=\"other\"");
        if (form->buttons[i].value) {
            html_markup(html, " name=\"decision\"");
            write_attribute(html, "value", str_of(form->buttons[i].value));
        }
        html_markup(html, ">");
        html_string(html, form->buttons[i].label);
        html_markup(html, "</button> ");
    }
}

bool form_show(const struct form *form, struct response *res, int status, const char *message,
               struct error *err)
{
    struct html html;
    bool is_first = true;
    if (!page_open(&html, res, form->title, err))
        return false;
    html_markup(&html, "<section class=\"enter\"><h1>");
    html_string(&html, form->title);
    html_markup(&html, "</h1><p>");
    html_string(&html, form->text);
    html_markup(&html, "</p>");
    if (message) {
        html_markup(&html, "<p class=\"failed box\" role=\"alert\">");
        html_string(&html, message);
        html_markup(&html, "</p>");
    }
    if (form->action) {
        html_markup(&html, form->is_get ? "<form" : "<form method=\"post\"");
        write_attribute(&html, "action", str_of(form->action));
        html_markup(&html, ">");
        for (size_t i = 0; i < FORM_INPUTS_MAX && form->inputs[i].name; i++) {
            write_input(&html, &form->inputs[i], is_first);
            is_first = is_first && !form->inputs[i].label;
        }
        write_buttons(&html, form);
        html_markup(&html, "</form>");
    }
    if (form->other_link) {
        html_markup(&html, "<p><a");
        write_attribute(&html, "href", str_of(form->other_link));
        html_markup(&html, ">");
        html_string(&html, form->other_label);
        html_markup(&html, "</a></p>");
    }
    html_markup(&html, "</section>");
    return page_close(&html, res, status, err);
}

bool form_field(struct call *call, const char *name, struct str *value, struct error *err)
{
    struct str rest = call->request->body, pair, key;
    *value = (struct str){0};
    while (str_split(&rest, '&', &pair)) {
        if (!str_split(&pair, '=', &key) || !str_equal(key, str_of(name)))
            continue;
        char *text = arena_alloc(call->arena, pair.len + 1);
        size_t len = 0;
        if (!percent_decode(pair, true, text, &len) || !utf8_is_valid((struct str){text, len}))
            return error_set(err, ERR_INVALID, "the form was not sent as a form");
        *value = (struct str){text, len};
        return true;
    }
    return true;
}

bool form_can_tell(const struct error *err)
{
    return err->code != ERR_INTERNAL && err->code != ERR_ORIGIN;
}
