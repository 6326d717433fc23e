/*
 * workload.h - what OO1 asks for, whoever stores it: its parts and connections, drawn at random,
 * and the procedure that each operation calls.
 */
#ifndef OO1_WORKLOAD_H
#define OO1_WORKLOAD_H

#include <stdint.h>

enum {
    LINKS = 3,                          /* connections from each part */
    HOPS = 7, VISITS = 3280,            /* of a traversal: 1 + 3 + 9 + ... + 3^7 */
    LOOKUPS = 1000, INSERTS = 100,
    RANGE = 100000,                     /* x, y and length are below */
    TYPES = 10, TYPE_BYTES = 10,        /* "part-type0" to "part-type9" */
    BUILD_FIRST = 3652,                 /* days since 1970: 1980 and nine years more */
    BUILD_DAYS = 3653,
    NEAR_PERCENT = 90, ZONE_PERCENT = 1
};

struct draws { uint64_t state; };
struct draws draws_of(uint64_t seed);
uint32_t draw(struct draws *d, uint32_t below);

struct part_values { int32_t x, y, build; char type[TYPE_BYTES]; };
struct part_values draw_part(struct draws *d);
void draw_type(struct draws *d, char type[TYPE_BYTES]);
/* The other end of a connection from this part: with 90 % one of the 1 % of all parts (ids 1 to
 * count) that are nearest to it, else any; never itself. */
int32_t draw_end(struct draws *d, int32_t from, int32_t count);
int is_near(int32_t from, int32_t to, int32_t count);

/* The null procedure, in which all results meet: they are summed up, so that two databases can be
 * compared. */
void procedure(int32_t x, int32_t y, const char type[TYPE_BYTES]);
uint64_t procedure_sum(void);           /* since the last call */
uint64_t procedure_calls(void);         /* the same */

#endif
