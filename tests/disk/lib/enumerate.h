/*
 * enumerate.h - every state in which a power cut can leave a recorded disk, recovered and compared.
 *
 * At each event of a record the pending writes are those that no completed flush covers. A crash
 * keeps any subset of them; any kept one may be torn at sectors of 512 bytes, one sector may be
 * garbled. Each state is made in place and undone. The recovered store must be the model after
 * some commit between the last acknowledged and the last submitted one. In a sample of the states
 * the recovery, and some work after it, is recorded and cut off again.
 */
#ifndef TESTS_DISK_ENUMERATE_H
#define TESTS_DISK_ENUMERATE_H

#include "world.h"

#define ENUMERATE_DEPTH_MAX 3u

/* What a test does with some of the crash states, before they are recovered. The device holds the
 * state; what is written to it is taken back. NULL, or what is wrong: a static text. */
typedef const char *enumerate_look(const struct world *world, struct device *device, uint64_t acked,
                                   uint64_t submitted, uint64_t random);

struct enumerate_options {
    bool     tear, garble;
    bool     exhaustive;        /* all subsets of up to 5 writes, every cut and every sector */
    uint32_t sector_bytes;      /* what tears apart; 0: 512 */
    uint32_t from_event;        /* states at earlier events are not made */
    uint32_t depth;             /* crashes after the first: 0 to ENUMERATE_DEPTH_MAX - 1 */
    uint32_t second_odds;       /* one state in so many gets a second crash; 0: none */
    uint32_t third_odds;        /* and of those one in so many a third */
    uint32_t rot_flips;         /* bits that rot, one by one, where no write is under way */
    bool     before;            /* the disk held a store with this digest before */
    uint64_t before_digest;
    uint32_t second_steps;      /* at most so many steps of work after the recovery */
    uint32_t random_subsets;    /* beside the systematic ones, per point */
    enumerate_look *look;       /* at one state in look_odds, of a store that is there */
    uint32_t look_odds;
    /* the next start may find that of the area that this one only added to (RV11) */
    bool     copy_rotten;
    /* the states are not recovered as they are: what is rotten is the look's to mend */
    bool     look_only;
    uint64_t states_max;        /* stop quietly after so many */
};

struct enumerate_result {
    uint64_t states, second_states, third_states, points;
    uint64_t rotten_states;     /* a byte of something durable flipped: noticed, or harmless */
    uint64_t again_states;      /* recovered twice (ST7) */
    uint64_t kcheck_states;     /* asked of kcheck, too */
    bool     failed;
    const char *method;         /* prefix, subset, torn, garbled, second crash */
    char     text[256];
};

/* `base` is the image before the first event; it is changed and then as after the last flush. */
void enumerate(const struct world *world, const struct event *events, uint32_t count,
               struct device *base, const struct enumerate_options *options, uint64_t seed,
               struct enumerate_result *result);

#endif
