#include "server/headers.h"

#include "server/context.h"

/* Without a referrer a browser would hide the origin of our own forms, too. */
const char headers_for_all[] = "Helmr-API-Version: " API_VERSION "\r\n"
                               "X-Content-Type-Options: nosniff\r\n"
                               "Referrer-Policy: same-origin\r\n"
                               "Cross-Origin-Resource-Policy: same-origin\r\n";

const char headers_for_https[] = "Strict-Transport-Security: max-age=31536000\r\n";

/* No scripts, nothing from elsewhere, in nobody's frame. */
static const struct {
    const char *name, *value;
} page_headers[] = {
    {"Content-Security-Policy",    "default-src 'none'; style-src 'self'; form-action 'self'; "
                                "base-uri 'none'; frame-ancestors 'none'"},
    {"X-Frame-Options",            "DENY"                                                               },
    {"Cross-Origin-Opener-Policy", "same-origin"                                                        },
    {"Permissions-Policy",         "camera=(), geolocation=(), microphone=(), payment=(), usb=()"       },
};

bool headers_add_page(struct response *res, struct error *err)
{
    for (size_t i = 0; i < COUNT_OF(page_headers); i++)
        if (!response_header(res, page_headers[i].name, str_of(page_headers[i].value), err))
            return false;
    return true;
}
