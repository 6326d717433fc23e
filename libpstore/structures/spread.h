/*
 * spread.h - one structure over several disks: a segment of parts, each in a container of its own.
 *
 *   PS_TREE(calls, struct key, struct call, by_day);
 *   struct ps_segment s = {.name = "calls", .parts = 2, .part = {left, right}};
 *   struct ps_builder b = {0};                             it is built in volatile memory ...
 *   struct calls built = {.head = &head, .memory = ps_building(&b)};
 *   calls_set_up(&built);  ... calls_insert(...) ...
 *   ps_spread(&s, PS_SPREAD_TREE(calls, &built), PS_LARSON_SEEGER);      ... and spread
 *
 * Each leaf goes to one of the parts, branches and head to part 0, all with pointers that lead from
 * part to part. So the structure's own functions work on it (ps_segment_memory); parallel.h reads
 * it with all disks at once. What was spread is rebuilt as a whole; in between leaves take changes
 * as long as they need no new one (-EXDEV: they do). A transaction changes those of up to four
 * stores.
 *
 * Results: 0 or -errno. Chapter: parallel.md.
 */
#ifndef PS_SPREAD_H
#define PS_SPREAD_H

#include "rtree.h"
#include "tree.h"

enum { PS_PARTS_MAX = 8, PS_SPREAD_HEAD = 128 };

/* What the library keeps in each part: an object with the segment's name. */
struct ps_part {
    uint32_t parts, number;     /* of the segment; this one, from 0 */
    uint64_t current;           /* of part 0: the build that is read; 0: none */
    /* two builds, by their number modulo 2: the current one, and what comes or goes */
    struct {
        uint64_t build, leaves; /* leaves: how many are in this part */
        char *area;             /* one object: leaves, each at a multiple of its size in pages */
        char *branches;         /* of part 0 */
        _Alignas(16) uint8_t head[PS_SPREAD_HEAD];
    } of[2];
};

/* A volatile handle. The program fills in the first three members, and zeros. */
struct ps_segment {
    const char *name;           /* of the object in each part: at most 63 bytes */
    unsigned parts;             /* 1 to PS_PARTS_MAX */
    /* containers, open for writing where the segment is spread; on stores of their own if disks are
     * to work at once. All NULL: the parts are in volatile memory of this process */
    struct ps_container *part[PS_PARTS_MAX];
    /* the library's */
    struct ps_part *kept[PS_PARTS_MAX];
    struct ps_head *head;       /* of the current build */
    struct { const char *from, *to; } leaves[PS_PARTS_MAX];
};

/* Makes nodes in volatile memory, and counts in which order. Zeros at first; it may be torn down
 * when the structure has been spread. */
struct ps_builder { uint64_t nodes; };
struct ps_memory ps_building(struct ps_builder *b);

/* enum ps_placement says which part a leaf goes to: by the order in which leaves were made, each to
 * the next part; or by their neighbours in the order of keys at that moment, to the part that has
 * least of these, the nearest counting most: local balancing, after Seeger and Larson, "Multi-Disk
 * B-trees" (1991). */
enum ps_placement { PS_ROUND_ROBIN, PS_LARSON_SEEGER };

/* The structure of an instance, for the calls below: of a line PS_TREE... or PS_RTREE. */
struct ps_spread_kind;
struct ps_spread_what {
    const struct ps_spread_kind *kind;
    struct ps_instance instance;
    const struct ps_type *type;
};
extern const struct ps_spread_kind ps_spread_tree, ps_spread_rtree;
#define PS_SPREAD_TREE(NAME, i) \
    ((struct ps_spread_what){&ps_spread_tree, NAME##_instance_(i), &NAME##_type_})
#define PS_SPREAD_RTREE(NAME, i) \
    ((struct ps_spread_what){&ps_spread_rtree, NAME##_instance_(i), &NAME##_type_})

/* Writes what was built to the parts: first leaves, in several transactions for each part, then, in
 * one, branches and head: from there on it is what readers see, and what was there before goes. A
 * cut leaves the one or the other; what is half written is freed by the next call. Not inside a
 * transaction (-EBUSY), one caller at a time. -EINVAL: the instance's memory is not ps_building's;
 * -ENODATA: nothing was built; -EUCLEAN: the parts are not those of one segment, in this order. */
int ps_spread(struct ps_segment *s, struct ps_spread_what built, enum ps_placement rule);
/* Finds what was spread; not inside a transaction. -ENODATA: nothing; -EUCLEAN as above. */
int ps_segment_open(struct ps_segment *s);
/* Gives a structure's head and a memory that has no room, for its instance:
 *     struct calls c = {.head = PS_SEGMENT_HEAD(&s), .memory = ps_segment_memory(&s)};
 * Good in transactions, until the segment is spread again. */
#define PS_SEGMENT_HEAD(s) ((void *)(s)->head)
struct ps_memory ps_segment_memory(struct ps_segment *s);
/* The part in which a leaf lies, or -ENOENT: the address is of no leaf. */
int ps_segment_part(const struct ps_segment *s, const void *leaf);
/* Frees all parts; the containers stay. Of volatile parts: to be called in the end. */
int ps_segment_clear(struct ps_segment *s);

#endif
