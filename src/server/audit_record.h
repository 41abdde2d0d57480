/* Audit entries as rows of the database and as the JSON of the API and of exported files, both
 * ways, so that what was exported can be verified as well as what is stored.
 */
#pragma once

#include "base/json.h"
#include "server/audit_chain.h"
#include "store/store.h"

enum { AUDIT_LINE_MAX = 64 * 1024 };

/* Rows of audit_list or audit_read; borrowed from them. */
struct audit_record audit_record_of(const struct rows *rows, size_t row);

/* An object; the mac as hex. */
void audit_record_write(struct json_writer *json, const struct audit_record *record);

/* The last line of an exported file, which says with the key where it begins and ends. */
struct audit_trailer {
    struct str chain_id, before; /* the mac of the entry before the first, or empty */
    int64_t first, last;
    struct str key_id, seal;
};

void audit_trailer_write(struct json_writer *json, const struct audit_trailer *trailer);
void audit_trailer_seal(struct str key, const struct audit_trailer *trailer, struct str last_mac,
                        uint8_t seal[BLAKE2B_LEN]);

/* One line of an exported file, in the arena: an entry, or (*is_trailer) the trailer. */
bool audit_line_read(struct str line, struct arena *arena, struct audit_record *record,
                     struct audit_trailer *trailer, bool *is_trailer, struct error *err) MUST_USE;
