#include "server/answer_page.h"

#include "server/handlers.h"
#include "server/html_page.h"

bool page_answer_script(struct call *call UNUSED, struct response *res, struct error *err)
{
    if (!buf_append(response_body(res), answer_script(), err) ||
        !response_header(res, "Cache-Control", STR("max-age=300"), err))
        return false;
    response_bytes(res, 200, "text/javascript; charset=utf-8");
    return true;
}

/* Every form is there and hidden; the script shows the one that the token asks for. */
bool page_answer(struct call *call UNUSED, struct response *res, struct error *err)
{
    struct html html;

    if (!page_open_scripted(&html, res, "Answer", "/answer.js", err) ||
        !response_header(res, "Cache-Control", STR("no-store"), err))
        return false;
    html_markup(&html,
                "<h1 id=\"prompt\">An answer is needed</h1>"
                "<p id=\"until\" class=\"note\" hidden></p>"
                "<p id=\"state\" role=\"status\" tabindex=\"-1\">One moment…</p>"
                "<noscript><p>This page needs JavaScript to send an answer.</p></noscript>"
                "<form id=\"approval\" class=\"answer\" hidden>"
                "<button type=\"submit\" value=\"yes\">Approve</button>"
                "<button type=\"submit\" value=\"no\" class=\"other\">Reject</button></form>"
                "<form id=\"message\" class=\"answer\" hidden>"
                "<label>Your answer<textarea name=\"text\" rows=\"5\" required></textarea></label>"
                "<button type=\"submit\">Send</button></form>"
                "<details id=\"other\" hidden><summary>Answer with JSON</summary>"
                "<form id=\"json\" class=\"answer\">"
                "<label>JSON<textarea name=\"json\" rows=\"5\" required spellcheck=\"false\" "
                "autocapitalize=\"off\" aria-describedby=\"fault\"></textarea></label>"
                "<p id=\"fault\" class=\"failed\" role=\"alert\"></p>"
                "<button type=\"submit\">Send</button></form></details>");
    return page_close(&html, res, 200, err);
}
