#include "server/headers.h"

#include "server/context.h"

/* Without a referrer a browser would hide the origin of our own forms, too. */
const char headers_for_all[] = "Helmr-API-Version: " API_VERSION "\r\n"
                               "X-Content-Type-Options: nosniff\r\n"
                               "Referrer-Policy: same-origin\r\n"
                               "Cross-Origin-Resource-Policy: same-origin\r\n";

const char headers_for_https[] = "Strict-Transport-Security: max-age=31536000\r\n";

/* In nobody's frame, with nothing of the machine. */
static const struct {
    const char *name, *value;
} common_headers[] = {
    {"X-Frame-Options",            "DENY"                                                        },
    {"Cross-Origin-Opener-Policy", "same-origin"                                                 },
    {"Permissions-Policy",         "camera=(), geolocation=(), microphone=(), payment=(), usb=()"},
};

/* No scripts, nothing from elsewhere. */
static const char page_policy[] = "default-src 'none'; style-src 'self'; form-action 'self'; "
                                  "base-uri 'none'; frame-ancestors 'none'";

/* Scripts are files of ours alone, and it talks to this server alone. The terminal makes its styles
 * as it goes. */
static const char console_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' "
    "data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'";

static bool add(struct response *res, const char *policy, struct error *err)
{
    for (size_t i = 0; i < COUNT_OF(common_headers); i++)
        if (!response_header(res, common_headers[i].name, str_of(common_headers[i].value), err))
            return false;
    return response_header(res, "Content-Security-Policy", str_of(policy), err);
}

bool headers_add_page(struct response *res, struct error *err)
{
    return add(res, page_policy, err);
}

bool headers_add_console(struct response *res, struct error *err)
{
    return add(res, console_policy, err);
}
