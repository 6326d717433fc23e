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
 * laid from the page's end downwards. An object of more than 4064 bytes begins in a slotted page
 * and runs to the very end of a page; the pages behind the first one have no header.
 *
 * Format version 1, all fields little-endian. Written by programs with the right to write the
 * container, therefore never believed: every function here stays inside the page, whatever it holds.
 *
 * Invariants, told by slot_check()
 *   SL1  seal == SLOT_SEAL ^ the low 32 bits of the page's number: a page knows its own place.
 *   SL2  Objects lie above the slot array, inside the page, and overlap nowhere.
 *   SL3  `free` is the number of units in neither an object nor header and slot array.
 *   SL4  `stack` units from the page's end on are below no object; `unused` slots are all zero.
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
#define SLOT_COUNT_MAX  226u             /* slots of a page full of one-unit objects */
#define SLOT_SEAL       0x7a3d51c7u

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
_Static_assert(sizeof(struct slot_page) == 12, "on-disk size");
_Static_assert(sizeof(struct slot) == 2, "on-disk size");

/* Make an empty slotted page, whatever was there; only the header is written. */
void slot_format(struct slot_page *page);
/* Make it no slotted page any more (before it is given back). */
void slot_unformat(struct slot_page *page);
/* SL1 holds. */
int slot_is_page(const struct slot_page *page);

/* An object of `units` (1 to SLOT_SMALL_MAX), zeroed: its first unit, or
 * -ENOSPC (no room), -EUCLEAN (no slotted page, or a spoilt one). */
int slot_alloc(struct slot_page *page, unsigned units);
/* In a page just formatted: the head of an object that begins at unit `start` (1 to SLOT_UNITS) and
 * runs on through `tail` pages. Zeroes what lies in this page. */
void slot_alloc_run(struct slot_page *page, unsigned start, uint32_t tail);
/* Free the object at unit `start`; *tail is how many following pages are free with it.
 * 0, -EINVAL (no object begins there), -EUCLEAN. */
int slot_free(struct slot_page *page, unsigned start, uint32_t *tail);
/* Make the object at unit `start`, which does not run on, `units` long (1 to SLOT_SMALL_MAX) where it is;
 * new units are zeroed. 0, -ENOSPC (another object lies there), -EINVAL, -EUCLEAN. */
int slot_resize(struct slot_page *page, unsigned start, unsigned units);
/* Units of the object at unit `start` (all its pages); 0: no object begins there. */
uint64_t slot_units(const struct slot_page *page, unsigned start);

/* First unit of the object in this page that unit `unit` is of; 0: of none. */
unsigned slot_object_at(const struct slot_page *page, unsigned unit);
/* No object lies here. */
int slot_is_empty(const struct slot_page *page);
/* Bytes of the largest object that slot_alloc() would find room for. */
unsigned slot_room(const struct slot_page *page);
/* 0, or -EUCLEAN if an invariant is broken. */
int slot_check(const struct slot_page *page);

#endif
