/* The rule at the end of a zone's file, in the form of POSIX: "EST5EDT,M3.2.0,M11.1.0". */
#pragma once

#include <stdint.h>

#include "base/str.h"

enum zone_day_kind {
    ZONE_DAY_OF_YEAR, /* from 0, leap days count */
    ZONE_DAY_JULIAN,  /* from 1, leap days never count */
    ZONE_DAY_WEEK,    /* the weekday of the week of the month; week 5: the last */
};

struct zone_day {
    enum zone_day_kind kind;
    int day, week, month;
    int32_t time; /* seconds of the wall clock after midnight */
};

/* Zeroed: always UTC. */
struct zone_rule {
    int32_t standard, summer; /* seconds east of UTC */
    bool has_summer;
    struct zone_day start, end; /* of summer time */
};

bool zone_rule_parse(struct str text, struct zone_rule *rule);

/* The offset at an instant of the years 2 to 9998, and when it changes next. */
int32_t zone_rule_offset(const struct zone_rule *rule, int64_t at, int64_t *until);
