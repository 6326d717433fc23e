/*
 * congeries_model.h - random work on congeries, beside a model that lies in the container's root.
 *
 * Four congeries of different knobs, two of them found by name; objects in them, in none, and where
 * a rule puts them; grown, released, collected, dropped and made again, locked. Whatever undoes the
 * work undoes the model. For tests/host/test_congeries.c, the guest's pstore_congeries.c and
 * tests/system/congeries-cut.c.
 */
#ifndef CONGERIES_MODEL_H
#define CONGERIES_MODEL_H

#include <congeries.h>

enum { REGIONS = 4, OBJECTS = 300 };
struct region_object { unsigned char *at; uint32_t bytes; uint8_t region, fill; };
struct regions {                        /* the root */
    uint32_t seed, count, step;
    uint32_t ruled;                     /* the region that "struct ruled" goes to, or REGIONS */
    ps_congeries *region[REGIONS];
    struct region_object object[OBJECTS];
};

/* In a transaction: makes the congeries, in a new container. 0 or -errno. */
int regions_begin(ps_container *c, uint32_t seed);
/* So many operations. An error: give the transaction up. */
int regions_work(ps_container *c, int operations);
void regions_compare(ps_container *c);

/* What differed first, as text; or NULL. */
extern const char *regions_wrong;
#define MUST(condition) \
    ((condition) ? (void)0 : (void)(regions_wrong = regions_wrong ? regions_wrong : #condition))

#endif
