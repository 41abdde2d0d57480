#include "server/audit_chain.h"

#include <inttypes.h>
#include <stdio.h>

enum { NUMBER_TEXT = 24 };

static struct str number(int64_t value, char text[NUMBER_TEXT])
{
    int len = snprintf(text, NUMBER_TEXT, "%" PRId64, value);
    return (struct str){text, (size_t)len};
}

void audit_mac(struct str key, struct str chain_id, struct str before,
               const struct audit_record *record, uint8_t mac[BLAKE2B_LEN])
{
    char sequence[NUMBER_TEXT], at[NUMBER_TEXT];
    struct str pieces[5 + AUDIT_TEXTS] = {STR("entry"), chain_id, before,
                                          number(record->sequence, sequence),
                                          number(record->at_ms, at)};
    for (size_t i = 0; i < AUDIT_TEXTS; i++)
        pieces[5 + i] = record->texts[i];
    blake2b_list(key, pieces, 5 + AUDIT_TEXTS, mac);
}

void audit_seal(struct str key, const char *what, const struct audit_end *end,
                uint8_t seal[BLAKE2B_LEN])
{
    char sequence[NUMBER_TEXT];
    const struct str pieces[] = {str_of(what), end->chain_id, number(end->sequence, sequence),
                                 end->mac};
    blake2b_list(key, pieces, sizeof pieces / sizeof *pieces, seal);
}
