/* Any list of proxies and any X-Forwarded-For lines: no crash, every client found can be shown, and
 * one header says nothing about what another is for. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>

#include "http/peer.h"
#include "http/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, line;
    static struct request request;
    struct proxies proxies = {0}, any;
    struct address proxy, said;
    char list[256], text[ADDRESS_TEXT];
    struct error err;

    if (size == 0 || !proxies_parse("10.0.0.0/8", &proxies, &err) ||
        !address_parse(STR("10.0.0.1"), &proxy))
        return 0;
    snprintf(list, sizeof list, "%.*s", (int)(size < 200 ? size : 200), (const char *)data);
    if (proxies_parse(list, &any, &err))
        assert(any.n > 0 && any.n <= PROXIES_MAX && any.items[0].prefix <= 128);
    if (address_parse(rest, &said))
        address_format(&said, text);

    request.n_headers = 0;
    while (request.n_headers < 8 && str_split(&rest, '\n', &line))
        request.headers[request.n_headers++] = (struct header){STR("X-Forwarded-For"), line};

    struct forwarded found = peer_forwarded(&proxies, &proxy, &request);

    address_format(&found.client, text);
    assert(found.host.len == 0 && !found.has_proto);
    return 0;
}
