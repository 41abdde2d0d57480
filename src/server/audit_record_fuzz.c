#include <stdlib.h>

#include "base/own.h"
#include "server/audit_record.h"

/* An entry that was read is written so that it has the same mac: exports can be verified. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bool read_line(struct str line, struct arena *arena, struct audit_record *record)
{
    struct audit_trailer trailer;
    struct error err;
    bool is_trailer = false;
    return audit_line_read(line, arena, record, &trailer, &is_trailer, &err) && !is_trailer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf text = {.max = (size_t)16 * AUDIT_LINE_MAX};
    struct audit_record first, second;
    struct error err;
    uint8_t macs[2][BLAKE2B_LEN];
    if (len > AUDIT_LINE_MAX || !read_line((struct str){(const char *)data, len}, &arena, &first))
        return 0;
    struct json_writer json = json_begin(&text);
    audit_record_write(&json, &first);
    if (!json_end(&json, &err) || !read_line(buf_str(&text), &arena, &second))
        abort();
    audit_mac((struct str){0}, STR("chain"), first.mac, &first, macs[0]);
    audit_mac((struct str){0}, STR("chain"), second.mac, &second, macs[1]);
    if (memcmp(macs[0], macs[1], sizeof macs[0]) != 0)
        abort();
    return 0;
}
