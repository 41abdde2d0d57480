/* For tests: an SQLite file system that starts to fail when told, after so many calls. */
#pragma once

/* What writes and syncs do from the nth one on (1 is the next), for `count` of them. */
enum fault_kind { FAULT_WRITE_FULL, FAULT_WRITE_ERROR, FAULT_SYNC_ERROR };

/* Becomes the file system of every connection opened later. */
void sqlite_fault_install(void);

void sqlite_fault_set(enum fault_kind kind, int nth, int count);

/* Nothing fails any more; returns how many calls have failed since the last set. */
int sqlite_fault_clear(void);
