#include "guest/kernel.h"

#include <string.h>

static bool parse_channel(struct str value, struct kernel_line *line, struct error *err)
{
    for (enum transport_kind kind = TRANSPORT_SERIAL; kind <= TRANSPORT_VSOCK; kind++) {
        if (str_equal(value, str_of(transport_name(kind)))) {
            line->transport = kind;
            return true;
        }
    }
    return error_set(err, ERR_INVALID, "helmr.channel is serial or vsock");
}

static bool parse_abi(struct str value, struct kernel_line *line, struct error *err)
{
    uint32_t number = 0;

    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9' || number > 99999)
            return error_set(err, ERR_INVALID, "helmr.abi is a number");
        number = number * 10 + (uint32_t)(value.ptr[i] - '0');
    }
    line->abi = number;
    return number != 0 || error_set(err, ERR_INVALID, "helmr.abi is a number");
}

static bool parse_drives(struct str value, struct kernel_line *line, struct error *err)
{
    struct str name;

    line->n_drives = 0;
    while (str_split(&value, ',', &name)) {
        if (name.len == 0 || line->n_drives == KERNEL_DRIVES_MAX)
            return error_set(err, ERR_INVALID, "helmr.drives is a list of at most %d names",
                             KERNEL_DRIVES_MAX);
        line->drives[line->n_drives++] = name;
    }
    return true;
}

static const struct {
    const char *prefix;
    bool (*parse)(struct str value, struct kernel_line *line, struct error *err);
} words[] = {
    {"helmr.channel=", parse_channel},
    {"helmr.abi=",     parse_abi    },
    {"helmr.drives=",  parse_drives },
};

const char *transport_name(enum transport_kind kind)
{
    return kind == TRANSPORT_VSOCK ? "vsock" : "serial";
}

bool kernel_line_parse(struct str text, struct kernel_line *line, struct error *err)
{
    struct str word;

    *line = (struct kernel_line){.transport = TRANSPORT_SERIAL};
    if (text.len && text.ptr[text.len - 1] == '\n')
        text.len--;
    while (str_split(&text, ' ', &word)) {
        for (size_t i = 0; i < COUNT_OF(words); i++) {
            size_t len = strlen(words[i].prefix);
            if (word.len < len || memcmp(word.ptr, words[i].prefix, len) != 0)
                continue;
            if (!words[i].parse((struct str){word.ptr + len, word.len - len}, line, err))
                return false;
        }
    }
    return true;
}
