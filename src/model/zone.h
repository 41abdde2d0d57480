/* Time zones: what the wall clock shows at an instant, and back.
 *
 * A zone is read from a TZif file (RFC 8536): changes of the offset in the past and near future,
 * and a rule for all that comes after. Instants are seconds since 1970, those of a wall clock
 * counted as if it were UTC. Pure: who reads the file is somebody else.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "model/zone_rule.h"

enum { ZONE_NAME_MAX = 64, ZONE_FILE_MAX = 64 * 1024 };

struct zone_change {
    int64_t at;
    int32_t offset; /* seconds east of UTC, from then on */
};

/* Zeroed: UTC. */
struct zone {
    const struct zone_change *changes; /* ascending */
    size_t n_changes;
    int32_t first; /* the offset before the first change */
    bool has_rule; /* after the last one */
    struct zone_rule rule;
};

/* Whether it has the form of an IANA name. It then names a file below the folder of zones:
 * no dots, no empty pieces, nothing of the system beside the zones. */
bool zone_name_is_valid(struct str name);

/* ERR_TIMEZONE. What is kept lives in the arena. */
bool zone_parse(struct str bytes, struct arena *arena, struct zone *zone,
                struct error *err) MUST_USE;

struct zone_span {
    int32_t offset;
    int64_t until; /* when it may change; INT64_MAX: never */
};
struct zone_span zone_span(const struct zone *zone, int64_t at);

/* When the wall clock shows it: the first time where it does so twice, and the end of the gap
 * where it never does. Later times of the wall clock are never earlier instants. */
int64_t zone_instant(const struct zone *zone, int64_t local);
