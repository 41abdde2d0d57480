#include "server/html.h"

#include "base/test.h"

static struct buf out;

static const char *shown(void (*write)(struct html *html, struct str text), struct str text)
{
    struct error err;
    buf_finish(&out);
    out = (struct buf){.max = 4096};
    struct html html = html_begin(&out);
    write(&html, text);
    if (!html_end(&html, &err) || !buf_append(&out, (struct str){"", 1}, &err))
        return "failed";
    return out.bytes;
}

TEST(nothing_in_a_text_is_markup)
{
    CHECK_STR(shown(html_text, STR("<script>alert('x') & \"y\"</script>")),
              "&lt;script&gt;alert(&#39;x&#39;) &amp; &quot;y&quot;&lt;/script&gt;");
    CHECK_STR(shown(html_text, STR("plain")), "plain");
    buf_finish(&out);
}

TEST(an_overflow_is_reported_once_at_the_end)
{
    struct error err;
    AUTO(buf_finish) struct buf small = {.max = 4};
    struct html html = html_begin(&small);
    html_markup(&html, "<p>");
    html_string(&html, "much");
    html_markup(&html, "x");
    CHECK(!html_end(&html, &err) && err.code == ERR_TOO_LARGE);
}

TEST_MAIN()
