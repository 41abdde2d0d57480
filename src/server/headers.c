#include "server/headers.h"

#include "server/context.h"

/* Without a referrer a browser would hide the origin of our own forms, too. */
const char headers_for_all[] = "Helmr-API-Version: " API_VERSION "\r\n"
                               "X-Content-Type-Options: nosniff\r\n"
                               "Referrer-Policy: same-origin\r\n"
                               "Cross-Origin-Resource-Policy: same-origin\r\n";

const char headers_for_https[] = "Strict-Transport-Security: max-age=31536000\r\n";

/* No scripts, nothing from elsewhere, in nobody's frame. */
#define POLICY(more)                                                          \
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; " \
    "frame-ancestors 'none'; " more

static const struct {
    const char *name, *value;
} page_headers[] = {
    {"X-Frame-Options",            "DENY"                                                        },
    {"Cross-Origin-Opener-Policy", "same-origin"                                                 },
    {"Permissions-Policy",         "camera=(), geolocation=(), microphone=(), payment=(), usb=()"},
};

static bool add(struct response *res, const char *policy, struct error *err)
{
    if (!response_header(res, "Content-Security-Policy", str_of(policy), err))
        return false;
    for (size_t i = 0; i < COUNT_OF(page_headers); i++)
        if (!response_header(res, page_headers[i].name, str_of(page_headers[i].value), err))
            return false;
    return true;
}

bool headers_add_page(struct response *res, struct error *err)
{
    return add(res, POLICY("form-action 'self'"), err);
}

bool headers_add_scripted_page(struct response *res, struct error *err)
{
    return add(res, POLICY("script-src 'self'; connect-src 'self'; form-action 'none'"), err);
}

/* It shows pictures and files of its own, and its terminal makes styles as it goes. */
bool headers_add_console(struct response *res, struct error *err)
{
    return add(res,
               "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
               "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; "
               "base-uri 'none'; frame-ancestors 'none'",
               err);
}
