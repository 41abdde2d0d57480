#include "server/audit_record.h"

#include <inttypes.h>

#include "base/encode.h"
#include "base/time.h"
#include "store/queries.h"

_Static_assert(AUDIT_READ_KEY_ID - AUDIT_READ_ACTOR_TYPE + 1 == AUDIT_TEXTS,
               "the texts of an entry are columns in the same order");
_Static_assert((int)AUDIT_READ_MAC == (int)AUDIT_LIST_MAC, "both lists have the same columns");

struct audit_record audit_record_of(const struct rows *rows, size_t row)
{
    struct audit_record record = {.sequence = row_int(rows, row, AUDIT_READ_SEQUENCE),
                                  .at_ms = row_int(rows, row, AUDIT_READ_AT_MS),
                                  .mac = row_str(rows, row, AUDIT_READ_MAC)};
    for (size_t i = 0; i < AUDIT_TEXTS; i++)
        record.texts[i] = row_str(rows, row, AUDIT_READ_ACTOR_TYPE + i);
    return record;
}

static void write_hex(struct json_writer *json, const char *name, struct str bytes)
{
    char text[2 * BLAKE2B_LEN + 1] = "";
    if (bytes.len <= BLAKE2B_LEN)
        hex_encode(bytes, text);
    json_string(json, name, text);
}

static void write_if(struct json_writer *json, const char *name, struct str text)
{
    if (text.len > 0)
        json_text(json, name, text);
}

void audit_record_write(struct json_writer *json, const struct audit_record *record)
{
    const struct str *texts = record->texts;
    json_open(json, NULL);
    json_int(json, "sequence", record->sequence);
    json_time(json, "at", record->at_ms);
    json_open(json, "actor");
    json_text(json, "type", texts[AUDIT_ACTOR_TYPE]);
    json_text(json, "id", texts[AUDIT_ACTOR_ID]);
    write_if(json, "name", texts[AUDIT_ACTOR_NAME]);
    json_close(json);
    json_text(json, "action", texts[AUDIT_ACTION]);
    write_if(json, "project_id", texts[AUDIT_PROJECT_ID]);
    write_if(json, "environment_id", texts[AUDIT_ENVIRONMENT_ID]);
    write_if(json, "subject", texts[AUDIT_SUBJECT]);
    write_if(json, "request_id", texts[AUDIT_REQUEST_ID]);
    json_text(json, "outcome", texts[AUDIT_OUTCOME]);
    json_text(json, "key_id", texts[AUDIT_KEY_ID]);
    write_hex(json, "mac", record->mac);
    json_close(json);
}

void audit_trailer_write(struct json_writer *json, const struct audit_trailer *trailer)
{
    json_open(json, NULL);
    json_open(json, "export");
    json_text(json, "chain_id", trailer->chain_id);
    json_int(json, "first", trailer->first);
    json_int(json, "last", trailer->last);
    write_hex(json, "before", trailer->before);
    json_text(json, "key_id", trailer->key_id);
    write_hex(json, "seal", trailer->seal);
    json_close(json);
    json_close(json);
}

void audit_trailer_seal(struct str key, const struct audit_trailer *trailer, struct str last_mac,
                        uint8_t seal[BLAKE2B_LEN])
{
    const struct audit_end first = {trailer->chain_id, trailer->first, trailer->before};
    const struct audit_end last = {trailer->chain_id, trailer->last, last_mac};
    uint8_t seals[2][BLAKE2B_LEN];
    audit_seal(key, "export first", &first, seals[0]);
    audit_seal(key, "export last", &last, seals[1]);
    const struct str both = {(const char *)seals, sizeof seals};
    blake2b_list(key, &both, 1, seal);
}

struct actor {
    struct str type, id, name;
};

struct line {
    int64_t sequence;
    struct str at, action, project_id, environment_id, subject, request_id, outcome, key_id, mac;
    struct actor actor;
    struct export
    {
        struct str chain_id, before, key_id, seal;
        int64_t first, last;
    }
    export;
    bool is_trailer;
};

static const struct json_field actor_fields[] = {
    {"type", JSON_TEXT, offsetof(struct actor, type), REQUIRED},
    {"id", JSON_TEXT, offsetof(struct actor, id), REQUIRED},
    {"name", JSON_TEXT, offsetof(struct actor, name), OPTIONAL},
    {0},
};

static const struct json_field export_fields[] = {
    {"chain_id", JSON_TEXT, offsetof(struct export, chain_id), REQUIRED},
    {"first", JSON_INTEGER, offsetof(struct export, first), REQUIRED, .max = INT64_MAX},
    {"last", JSON_INTEGER, offsetof(struct export, last), REQUIRED, .max = INT64_MAX},
    {"before", JSON_TEXT, offsetof(struct export, before), REQUIRED},
    {"key_id", JSON_TEXT, offsetof(struct export, key_id), REQUIRED},
    {"seal", JSON_TEXT, offsetof(struct export, seal), REQUIRED},
    {0},
};

static const struct json_field line_fields[] = {
    {"sequence", JSON_INTEGER, offsetof(struct line, sequence), OPTIONAL, .max = INT64_MAX},
    {"at", JSON_TEXT, offsetof(struct line, at), OPTIONAL},
    {"actor", JSON_OBJ, offsetof(struct line, actor), OPTIONAL, .fields = actor_fields},
    {"action", JSON_TEXT, offsetof(struct line, action), OPTIONAL},
    {"project_id", JSON_TEXT, offsetof(struct line, project_id), OPTIONAL},
    {"environment_id", JSON_TEXT, offsetof(struct line, environment_id), OPTIONAL},
    {"subject", JSON_TEXT, offsetof(struct line, subject), OPTIONAL},
    {"request_id", JSON_TEXT, offsetof(struct line, request_id), OPTIONAL},
    {"outcome", JSON_TEXT, offsetof(struct line, outcome), OPTIONAL},
    {"key_id", JSON_TEXT, offsetof(struct line, key_id), OPTIONAL},
    {"mac", JSON_TEXT, offsetof(struct line, mac), OPTIONAL},
    {"export", JSON_OBJ, offsetof(struct line, export), OPTIONAL, .fields = export_fields,
     .present = offsetof(struct line, is_trailer)},
    {0},
};

/* A mac of another length is none; empty stands for "no entry before". */
static bool read_hex(struct str text, bool may_be_empty, struct arena *arena, struct str *bytes,
                     struct error *err)
{
    char *made = arena_alloc(arena, BLAKE2B_LEN);
    *bytes = (struct str){made, may_be_empty && text.len == 0 ? 0 : BLAKE2B_LEN};
    return bytes->len == 0 ||
           (text.len == (size_t)2 * BLAKE2B_LEN && hex_decode(text, made, BLAKE2B_LEN)) ||
           error_set(err, ERR_INVALID, "a mac is not 64 hex digits");
}

bool audit_line_read(struct str text, struct arena *arena, struct audit_record *record,
                     struct audit_trailer *trailer, bool *is_trailer, struct error *err)
{
    struct line line;
    if (!json_read(text, line_fields, &line, sizeof line, arena, err))
        return false;
    *is_trailer = line.is_trailer;
    if (line.is_trailer) {
        *trailer = (struct audit_trailer){.chain_id = line.export.chain_id,
                                          .first = line.export.first,
                                          .last = line.export.last,
                                          .key_id = line.export.key_id};
        return read_hex(line.export.before, true, arena, &trailer->before, err) &&
               read_hex(line.export.seal, false, arena, &trailer->seal, err);
    }
    *record = (struct audit_record){
        .sequence = line.sequence,
        .texts = {line.actor.type, line.actor.id, line.actor.name, line.action, line.project_id,
                  line.environment_id, line.subject, line.request_id, line.outcome, line.key_id},
    };
    return time_parse(line.at, &record->at_ms, err) &&
           read_hex(line.mac, false, arena, &record->mac, err);
}
