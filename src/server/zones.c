#include "server/zones.h"

#include "base/file.h"
#include "base/own.h"

#define ZONES_DIR "/usr/share/zoneinfo"

static bool unknown(struct str name, struct error *err)
{
    return error_set(err, ERR_TIMEZONE, "there is no time zone \"%.*s\"",
                     name.len < ZONE_NAME_MAX ? (int)name.len : ZONE_NAME_MAX,
                     name.ptr ? name.ptr : "");
}

bool zones_find(struct str name, struct arena *arena, struct zone *zone, struct error *err)
{
    AUTO_FREE char *bytes = NULL;
    struct error why;
    size_t len;

    if (str_equal(name, STR("UTC"))) {
        *zone = (struct zone){0};
        return true;
    }
    if (!zone_name_is_valid(name))
        return unknown(name, err);
    const char *path = arena_printf(arena, ZONES_DIR "/%.*s", (int)name.len, name.ptr);
    if (!file_read_bytes(path, ZONE_FILE_MAX, &bytes, &len, &why))
        return unknown(name, err);
    return zone_parse((struct str){bytes, len}, arena, zone, err);
}
