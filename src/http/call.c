#include "http/call.h"

#include <errno.h>
#include <inttypes.h>

#include "base/encode.h"

struct str call_param(const struct call *call, size_t index)
{
    if (index >= call->match.n_params)
        return (struct str){0};
    return call->match.params[index];
}

struct str call_header(const struct call *call, struct str name)
{
    return request_header(call->request, name);
}

static const char *format_address(const struct call *call, const struct address *address)
{
    char *text = arena_alloc(call->arena, ADDRESS_TEXT);

    address_format(address, text);
    return text;
}

const char *call_client_address(const struct call *call)
{
    return format_address(call, &call->client);
}

const char *call_client_network(const struct call *call)
{
    struct address network = address_network(&call->client);

    return format_address(call, &network);
}

static bool decode(struct call *call, struct str text, struct str *value, struct error *err)
{
    char *bytes = arena_alloc(call->arena, text.len + 1);
    size_t len = text.len;

    if (!percent_decode(text, true, bytes, &len))
        return error_set(err, ERR_INVALID, "the query is not well encoded");
    *value = (struct str){bytes, len};
    return true;
}

bool call_query(struct call *call, const char *name, struct str *value, bool *found,
                struct error *err)
{
    struct str rest = call->query, pair, key, decoded = {0};

    *found = false;
    while (str_split(&rest, '&', &pair)) {
        if (!str_split(&pair, '=', &key) || !decode(call, key, &key, err))
            return false;
        if (!str_equal(key, str_of(name)))
            continue;
        if (*found)
            return error_set(err, ERR_INVALID, "the query has %s twice", name);
        if (!decode(call, pair, &decoded, err))
            return false;
        *value = decoded;
        *found = true;
    }
    return true;
}

bool call_query_int(struct call *call, const char *name, int64_t min, int64_t max, int64_t fallback,
                    int64_t *value, struct error *err)
{
    struct str text = {0};
    bool found;

    if (!call_query(call, name, &text, &found, err))
        return false;
    if (!found) {
        *value = fallback;
        return true;
    }

    /* Decoded text is NUL-terminated; strtoll would let blanks and a plus sign in. */
    bool is_number = text.len > 0 && strspn(text.ptr, "-0123456789") == text.len;
    char *end = NULL;
    errno = 0;
    int64_t number = is_number ? strtoll(text.ptr, &end, 10) : 0;

    if (!is_number || errno || *end || number < min || number > max)
        return error_set(err, ERR_INVALID, "%s must be between %" PRId64 " and %" PRId64, name, min,
                         max);
    *value = number;
    return true;
}
