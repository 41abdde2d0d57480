/* The time zones of the machine, by their IANA names. */
#pragma once

#include "model/zone.h"

/* ERR_TIMEZONE when there is none of that name. UTC is always there. */
bool zones_find(struct str name, struct arena *arena, struct zone *zone,
                struct error *err) MUST_USE;
