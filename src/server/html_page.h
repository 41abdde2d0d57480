/* The frame every page of the server has, and forms as data: what they say, what they ask, where
 * they go. Forms need no script.
 */
#pragma once

#include "http/call.h"
#include "server/html.h"

bool page_open(struct html *html, struct response *res, const char *title,
               struct error *err) MUST_USE;
/* One whose script is this file of ours: it may ask our own API, and nothing else may run. */
bool page_open_scripted(struct html *html, struct response *res, const char *title,
                        const char *script, struct error *err) MUST_USE;
bool page_close(struct html *html, struct response *res, int status, struct error *err) MUST_USE;

/* 303, so that a form that was sent is not sent again. */
bool page_redirect(struct response *res, const char *to, struct error *err) MUST_USE;

struct form_input {
    const char *name, *label; /* without a label it is hidden */
    const char *type;         /* text, email, password */
    const char *autocomplete;
    struct str value; /* shown again; never a password */
};

enum { FORM_INPUTS_MAX = 6, FORM_BUTTONS_MAX = 2 };

struct form {
    const char *title, *text; /* `text` is plain */
    const char *action;
    bool is_get;
    struct form_input inputs[FORM_INPUTS_MAX]; /* ended by one without a name */
    /* Each sends decision=value when it has a value. */
    struct form_button {
        const char *label, *value;
    } buttons[FORM_BUTTONS_MAX];
    const char *other_link, *other_label; /* another way, or NULL */
};

/* The whole page; a message, when there is one, says what was wrong. */
bool form_show(const struct form *form, struct response *res, int status, const char *message,
               struct error *err) MUST_USE;

/* A field of a body that a form has sent; empty when it is not there. In the arena. */
bool form_field(struct call *call, const char *name, struct str *value, struct error *err) MUST_USE;

/* Whether a failure is to be told on the page: what the person can do something about. */
bool form_can_tell(const struct error *err);
