/* Packs of a tree on their way into the store. A full one is ended and put by a thread, beside the
 * work that fills the next; they are put in their order.
 */
#pragma once

#include "blob/object.h"
#include "blob/pack.h"

/* A pack that is being filled, and its file. */
struct parcel {
    struct parcel *next;
    struct seal_writer seal;
    struct pack_writer pack;
    int fd;
};

struct parcel *parcel_create(void);
void parcel_destroy(struct parcel *parcel); /* accepts NULL */

/* Ends the pack and puts it. */
bool parcel_put(struct parcel *parcel, const struct object_backend *backend,
                struct seal_facts *facts, struct error *err) MUST_USE;

struct shipping;

/* The backend is the thread's alone from the first parcel to the end. */
struct shipping *shipping_create(const struct object_backend *backend);
void shipping_destroy(struct shipping *shipping); /* accepts NULL; what waits is dropped */

/* Takes the parcel, also when it fails. Waits while others wait. */
bool shipping_give(struct shipping *shipping, struct parcel *parcel, struct error *err) MUST_USE;

/* Waits for all of them. What was put is the shipping's. */
bool shipping_end(struct shipping *shipping, const struct seal_facts **facts, size_t *n,
                  struct error *err) MUST_USE;
