/*
 * slot.h - one slotted page: the format of every container page that holds objects.
 *
 *      unit 0                                                              unit 255
 *      +--------+----+----+----+--- - - ---+------+------------+-----+-----------+
 *      | header | s0 | s1 | s2 |   room    |  o2  | (freed) o1 | ... |    o0     |
 *      +--------+----+----+----+--- - - ---+------+------------+-----+-----------+
 *        12 bytes  2 bytes each ->          <- 16-byte units, from the page's end
 *
 * The slot array lies at the page's bottom (its lowest addresses) and grows upwards; objects are
 * laid from the page's end downwards. An object of more than 4048 bytes begins in a slotted page
 * and runs to the very end of a page; the pages behind the first one have no header.
 *
 * Format version 1, all fields little-endian. A *marked* page has another seal, 32 bytes of header
 * and slots of 6 bytes: its objects have types, and it may be of an arena. Both kinds are used in
 * one container. Written by programs with the right to write the
 * container, therefore never believed: every function here stays inside the page, whatever it
 * holds.
 *
 * Invariants, told by slot_check()
 *   SL1  seal == SLOT_SEAL (or SLOT_SEAL_MARKED) ^ the low 32 bits of the page's number: a page
 *        knows its own place.
 *   SL2  Objects lie above the slot array, inside the page, and overlap nowhere.
 *   SL3  `free` is the number of units in neither an object nor header and slot array.
 *   SL4  `stack` units from the page's end on are below no object, as many as that or more where
 *        objects were freed beside others (slot_free_beside); `unused` slots are all zero.
 *   SL5  At most one object goes on into following pages, and `tail` says how many.
 */
#ifndef PSTORE_SLOT_H
#define PSTORE_SLOT_H

#include <stddef.h>
#include <stdint.h>

#define SLOT_PAGE_BYTES 4096u
#define SLOT_UNIT_BYTES 16u
#define SLOT_UNITS      256u             /* of a page */
#define SLOT_SMALL_MAX  254u             /* units of the largest object that lies in one page */
#define SLOT_SMALL_MARKED 253u           /* ... of a marked page */
#define SLOT_COUNT_MAX  226u             /* slots of a page full of one-unit objects */
#define SLOT_SEAL       0x7a3d51c7u
#define SLOT_SEAL_MARKED 0x4b1e92d5u

struct slot {
    uint8_t start;                       /* first unit; 0: the first unit of the next page */
    uint8_t units;                       /* 0: unused; SLOT_RUNS_ON: to the end of the run */
};
#define SLOT_RUNS_ON 255u

struct slot_page {
    uint32_t seal;                       /*  0 */
    uint32_t tail;                       /*  4  pages that follow and belong to this page's run */
    uint8_t slots;                       /*  8  length of the slot array */
    uint8_t unused;                      /*  9  of these are unused */
    uint8_t stack;                       /* 10  units from the lowest object to the page's end */
    uint8_t free;                        /* 11 */
    struct slot slot[];                  /* 12 */
};
struct slot_marked {                     /* a slot of a marked page */
    struct slot slot;
    uint8_t type[4];                     /* slot_type_of() of the type's name; 0: unknown */
};
struct slot_page_marked {
    struct slot_page page;               /*  0 */
    uint32_t reserved;                   /* 12  zero */
    uint64_t arena;                      /* 16  address of the arena it is of; 0: of none */
    uint64_t next;                       /* 24  the arena's next page; 0: none */
    struct slot_marked slot[];           /* 32 */
};
_Static_assert(sizeof(struct slot_page) == 12, "on-disk size");
_Static_assert(sizeof(struct slot) == 2, "on-disk size");
_Static_assert(sizeof(struct slot_marked) == 6, "on-disk size");
_Static_assert(sizeof(struct slot_page_marked) == 32, "on-disk size");

/* slot_type_of makes a type's number of its name (FNV-1a). Names of objects are types, too, with
 * the highest bit set. */
#define SLOT_TYPE_NAME  0x80000000u
static inline uint32_t slot_type_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    hash &= ~SLOT_TYPE_NAME;
    return hash ? hash : 1;
}
#define SLOT_TYPE_ARENA 1u               /* of the object that an arena is known by */

/* That object is this. Pages of a block follow each other in its list, and so do spare blocks. */
struct slot_arena_kept {
    uint64_t spare;                      /*  0  first page of the first spare block */
    uint32_t spare_blocks;               /*  8  how many of them follow each other */
    uint8_t block_pages;                 /* 12  a power of 2, 1 to 64; 0: 1 */
    uint8_t fill;                        /* 13  percent of a page, without a hint; 0: 100 */
    uint16_t unused;                     /* 14  zero */
};
_Static_assert(sizeof(struct slot_arena_kept) == SLOT_UNIT_BYTES, "on-disk size");

/* slot_format makes an empty slotted page, whatever was there; only the header is written. */
void slot_format(struct slot_page *page);
/* slot_format_marked makes a marked one. */
void slot_format_marked(struct slot_page *page, uint64_t arena, uint64_t next);
/* slot_unformat makes it no slotted page any more (before it is given back). */
void slot_unformat(struct slot_page *page);
/* slot_is_page tells whether SL1 holds. */
int slot_is_page(const struct slot_page *page);
int slot_is_marked(const struct slot_page *page);
uint64_t slot_arena(const struct slot_page *page);      /* 0: none */
/* slot_area_units counts the units that header and `slots` slots take. */
unsigned slot_area_units(const struct slot_page *page, unsigned slots);
/* slot_area_bytes and slot_area_bytes_max tell the bytes that they take now, and at most. */
unsigned slot_area_bytes(const struct slot_page *page);
unsigned slot_area_bytes_max(const struct slot_page *page);

/* slot_alloc makes an object of `units` (1 to SLOT_SMALL_MAX), zeroed: its first unit, or -ENOSPC
 * (no room; a type in a page that is not marked), -EUCLEAN (no slotted page, or a spoilt one). */
int slot_alloc(struct slot_page *page, unsigned units, uint32_t type);
/* slot_alloc_run, in a page just formatted, makes the head of an object from unit `start` (1 to
 * SLOT_UNITS) on, through `tail` pages. Zeroes what lies in this page. */
void slot_alloc_run(struct slot_page *page, unsigned start, uint32_t tail, uint32_t type);
/* slot_free frees the object at unit `start`; *tail is how many following pages are free with it.
 * 0, -EINVAL (no object begins there), -EUCLEAN. */
int slot_free(struct slot_page *page, unsigned start, uint32_t *tail);
/* slot_free_beside does so while others free other objects of the page, in item mode: what is
 * counted is changed by locked instructions, and room is not made good: slot_settle does, before
 * slot_alloc. -EINVAL also: it runs on. */
int slot_free_beside(struct slot_page *page, unsigned start);
/* slot_settle makes the slot array end with a used slot, and `stack` at the lowest object. */
void slot_settle(struct slot_page *page);
/* slot_resize makes the object at unit `start`, which does not run on, `units` long where it is;
 * new units are zeroed. 0, -ENOSPC (another object lies there), -EINVAL, -EUCLEAN. */
int slot_resize(struct slot_page *page, unsigned start, unsigned units);
/* slot_units counts the units of the object at unit `start` (all its pages); 0: none is there. */
uint64_t slot_units(const struct slot_page *page, unsigned start);

/* slot_type returns the type of the object at unit `start`; 0: unknown, or none is there. */
uint32_t slot_type(const struct slot_page *page, unsigned start);
/* slot_retype gives it another one: 0, -EINVAL (no object, no marked page). */
int slot_retype(struct slot_page *page, unsigned start, uint32_t type);
/* slot_next finds the object with the lowest first unit above `after` of this type, 0: of any; its
 * first unit, which may be SLOT_UNITS; 0: there is none. */
unsigned slot_next(const struct slot_page *page, unsigned after, uint32_t type);
/* slot_object_at finds the first unit of the object in this page that `unit` is of; 0: of none. */
unsigned slot_object_at(const struct slot_page *page, unsigned unit);
/* slot_is_empty tells whether no object lies here. */
int slot_is_empty(const struct slot_page *page);
/* slot_room tells the bytes of the largest object that slot_alloc() would find room for. */
unsigned slot_room(const struct slot_page *page);
/* slot_check returns 0, or -EUCLEAN if an invariant is broken. */
int slot_check(const struct slot_page *page);

#endif
