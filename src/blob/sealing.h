/* Sealing beside the work that fills records: full ones are handed to a thread, which compresses,
 * seals and writes them in their order. It is started with the first and joined by sealing_end.
 *
 * While it runs, the seal writer is the thread's alone.
 */
#pragma once

#include "blob/pack.h"

struct sealing;

/* Both are borrowed; the places of records go into the array. */
struct sealing *sealing_create(struct seal_writer *seal, struct pack_record *records);
void sealing_destroy(struct sealing *sealing); /* accepts NULL; what is not sealed yet is dropped */

/* Where the next record is to be put together: SEAL_RAW_MAX bytes. */
uint8_t *sealing_buffer(struct sealing *sealing);

/* Gives the buffer away, `len` bytes of it, as the next record. May wait until another is free. */
bool sealing_give(struct sealing *sealing, size_t len, struct error *err) MUST_USE;

/* Sealed bytes of the object so far. */
uint64_t sealing_size(struct sealing *sealing);

/* Waits for the end of what was given. The writer is the caller's again, also after an error. */
bool sealing_end(struct sealing *sealing, struct error *err) MUST_USE;

/* One record in the caller's own thread. */
bool sealing_record(struct seal_writer *seal, struct str raw, struct pack_record *record,
                    struct error *err) MUST_USE;
