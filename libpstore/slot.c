/*
 * slot.c - objects inside one slotted page (format and invariants: slot.h).
 *
 * Owns      header and slot array of a page.
 * Not here  which page is taken (alloc.c), locks and undo (they come with every load and store).
 *
 * The common case, a new object on top of the last one, reads and writes the header, one slot and
 * the object. Only a page in which something was freed has its holes searched, by a map of its 256
 * units made from the slots.
 */
#include "slot.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#ifdef KATYDID_TEST
#define TESTING 1
#else
#define TESTING 0
#endif

struct unit_map {
    uint64_t word[SLOT_UNITS / 64];      /* a bit for each unit in use */
};

/* Units taken by the header and `slots` slots. */
static unsigned area_units(unsigned slots)
{
    return (unsigned)(sizeof(struct slot_page) + slots * sizeof(struct slot) + SLOT_UNIT_BYTES - 1) /
           SLOT_UNIT_BYTES;
}

/* A call of memset would cost more than most objects; the barrier keeps the compiler from making it. */
static void units_zero(struct slot_page *page, unsigned start, unsigned units)
{
    uint64_t *word = (uint64_t *)((char *)page + (size_t)start * SLOT_UNIT_BYTES);
    for (uint64_t *end = word + units * (SLOT_UNIT_BYTES / 8); word < end; word += 2) {
        word[0] = word[1] = 0;
        __asm__ volatile("" ::: "memory");
    }
}

static uint32_t seal_of(const struct slot_page *page)
{
    return SLOT_SEAL ^ (uint32_t)((uintptr_t)page / SLOT_PAGE_BYTES);
}

/* First unit and units of a slot as far as this page goes; a run may start at SLOT_UNITS. */
static unsigned slot_start(struct slot s)
{
    return s.units == SLOT_RUNS_ON && s.start == 0 ? SLOT_UNITS : s.start;
}

static unsigned slot_units_here(struct slot s)
{
    return s.units == SLOT_RUNS_ON ? SLOT_UNITS - slot_start(s) : s.units;
}

/* In test builds: all invariants hold. A page that was spoilt before need not be better after. */
static int page_sound(const struct slot_page *page)
{
    return TESTING && slot_check(page) == 0;
}

static int header_is_sound(const struct slot_page *page)
{
    return slot_is_page(page) && page->slots <= SLOT_COUNT_MAX && page->unused <= page->slots &&
           area_units(page->slots) + page->stack <= SLOT_UNITS;
}

void slot_format(struct slot_page *page)
{
    page->seal = seal_of(page);
    page->tail = 0;
    page->slots = page->unused = page->stack = 0;
    page->free = (uint8_t)(SLOT_UNITS - area_units(0));
}

void slot_unformat(struct slot_page *page)
{
    memset(page, 0, sizeof *page);
}

int slot_is_page(const struct slot_page *page)
{
    return page->seal == seal_of(page);
}

/* ---- the map of a page's units ---- */

static int map_test(const struct unit_map *map, unsigned unit)
{
    return (int)(map->word[unit / 64] >> (unit % 64) & 1);
}

/* Marks units as used; -EUCLEAN if one of them was, or lies outside. */
static int map_mark(struct unit_map *map, unsigned start, unsigned units)
{
    if (start + units > SLOT_UNITS)
        return -EUCLEAN;
    for (unsigned unit = start; unit < start + units; unit++) {
        if (map_test(map, unit))
            return -EUCLEAN;
        map->word[unit / 64] |= 1ull << (unit % 64);
    }
    return 0;
}

static int map_make(struct unit_map *map, const struct slot_page *page, unsigned area)
{
    memset(map, 0, sizeof *map);
    int result = map_mark(map, 0, area);
    for (unsigned i = 0; i < page->slots && result == 0; i++)
        if (page->slot[i].units != 0)
            result = map_mark(map, slot_start(page->slot[i]), slot_units_here(page->slot[i]));
    return result;
}

/* The smallest hole of at least `units`: its length, 0 if there is none; *start is its first unit.
 * With units == SLOT_UNITS + 1 the largest hole is told in *largest only. */
static unsigned map_find(const struct unit_map *map, unsigned units, unsigned *start,
                         unsigned *largest)
{
    unsigned best = 0, run = 0;
    *largest = 0;
    for (unsigned unit = 0; unit <= SLOT_UNITS; unit++) {
        if (unit < SLOT_UNITS && !map_test(map, unit)) {
            run++;
            continue;
        }
        if (run >= units && (best == 0 || run < best)) {
            best = run;
            *start = unit - run;
        }
        *largest = run > *largest ? run : *largest;
        run = 0;
    }
    return best;
}

/* ---- objects ---- */

/* A freed slot, or a new one at the array's end; -EUCLEAN if the header lied. */
static int slot_take(const struct slot_page *page)
{
    if (page->unused == 0)
        return page->slots < SLOT_COUNT_MAX ? page->slots : -EUCLEAN;
    for (int i = 0; i < page->slots; i++)
        if (page->slot[i].units == 0)
            return i;
    return -EUCLEAN;
}

static int hole_find(const struct slot_page *page, unsigned area, unsigned units)
{
    struct unit_map map;
    unsigned start, largest;
    if (map_make(&map, page, area) != 0)
        return -EUCLEAN;
    return map_find(&map, units, &start, &largest) ? (int)start : -ENOSPC;
}

int slot_alloc(struct slot_page *page, unsigned units)
{
    int sound = page_sound(page);
    if (!header_is_sound(page))
        return -EUCLEAN;
    unsigned area_now = area_units(page->slots);
    unsigned area = page->unused ? area_now : area_units(page->slots + 1u);
    unsigned top = SLOT_UNITS - page->stack;
    if (page->free < units + (area - area_now) || area > top)
        return -ENOSPC;

    int index = slot_take(page);
    if (index < 0)
        return index;
    int start = area + units <= top ? (int)(top - units) : hole_find(page, area, units);
    if (start < 0)
        return start;

    if (page->unused)
        page->unused--;
    else
        page->slots++;
    if ((unsigned)start < top)
        page->stack = (uint8_t)(SLOT_UNITS - (unsigned)start);
    page->free = (uint8_t)(page->free - units - (area - area_now));
    page->slot[index] = (struct slot){(uint8_t)start, (uint8_t)units};
    units_zero(page, (unsigned)start, units);
    assert(!sound || page_sound(page));                                         /* SL2, SL3, SL4 */
    return start;
}

void slot_alloc_run(struct slot_page *page, unsigned start, uint32_t tail)
{
    unsigned units = SLOT_UNITS - start;
    page->tail = tail;
    page->slots = 1;
    page->stack = (uint8_t)units;
    page->free = (uint8_t)(SLOT_UNITS - area_units(1) - units);
    page->slot[0] = (struct slot){(uint8_t)start, SLOT_RUNS_ON};
    units_zero(page, start, units);
    assert(page_sound(page) || !TESTING);                                       /* SL5 */
}

/* The slot of the object that begins at `start`, or -EINVAL. */
static int slot_find(const struct slot_page *page, unsigned start)
{
    unsigned slots = page->slots <= SLOT_COUNT_MAX ? page->slots : SLOT_COUNT_MAX;
    for (unsigned i = 0; i < slots; i++)
        if (page->slot[i].start == (uint8_t)start && page->slot[i].units != 0 &&
            slot_start(page->slot[i]) == start)
            return (int)i;
    return -EINVAL;
}

/* Units from the lowest object to the page's end. */
static unsigned stack_units(const struct slot_page *page)
{
    unsigned top = SLOT_UNITS;
    for (unsigned i = 0; i < page->slots; i++)
        if (page->slot[i].units != 0 && slot_start(page->slot[i]) < top)
            top = slot_start(page->slot[i]);
    return SLOT_UNITS - top;
}

int slot_free(struct slot_page *page, unsigned start, uint32_t *tail)
{
    *tail = 0;
    if (!slot_is_page(page))
        return -EINVAL;
    int sound = page_sound(page);
    if (!header_is_sound(page))
        return -EUCLEAN;
    int index = slot_find(page, start);
    if (index < 0)
        return index;

    struct slot *slot = &page->slot[index];
    unsigned units = slot_units_here(*slot), area = area_units(page->slots);
    if (start + units > SLOT_UNITS || page->free + units > SLOT_UNITS)
        return -EUCLEAN;
    if (slot->units == SLOT_RUNS_ON) {
        *tail = page->tail;
        page->tail = 0;
    }
    *slot = (struct slot){0, 0};
    page->unused++;
    while (page->slots > 0 && page->slot[page->slots - 1].units == 0 && page->unused > 0) {
        page->slots--;
        page->unused--;
    }
    page->stack = (uint8_t)stack_units(page);
    page->free = (uint8_t)(page->free + units + (area - area_units(page->slots)));
    assert(!sound || page_sound(page));                                         /* SL2, SL3, SL4 */
    return 0;
}

int slot_resize(struct slot_page *page, unsigned start, unsigned units)
{
    struct unit_map map;
    int sound = page_sound(page);
    if (!header_is_sound(page) || map_make(&map, page, area_units(page->slots)) != 0)
        return -EUCLEAN;
    int index = slot_find(page, start);
    if (index < 0 || page->slot[index].units == SLOT_RUNS_ON)
        return -EINVAL;
    unsigned old = page->slot[index].units;
    if (units > SLOT_SMALL_MAX || (units > old && map_mark(&map, start + old, units - old) != 0))
        return -ENOSPC;
    page->slot[index].units = (uint8_t)units;
    page->free = (uint8_t)(page->free + old - units);
    if (units > old)
        units_zero(page, start + old, units - old);
    assert(!sound || page_sound(page));                                         /* SL2, SL3, SL4 */
    return 0;
}

unsigned slot_object_at(const struct slot_page *page, unsigned unit)
{
    for (unsigned i = 0; header_is_sound(page) && i < page->slots; i++) {
        unsigned start = slot_start(page->slot[i]);
        if (page->slot[i].units != 0 && start <= unit && unit - start < slot_units_here(page->slot[i]))
            return start;
    }
    return 0;
}

uint64_t slot_units(const struct slot_page *page, unsigned start)
{
    int index = slot_is_page(page) ? slot_find(page, start) : -EINVAL;
    if (index < 0)
        return 0;
    struct slot slot = page->slot[index];
    uint64_t tail = slot.units == SLOT_RUNS_ON ? page->tail : 0;
    return slot_units_here(slot) + tail * SLOT_UNITS;
}

int slot_is_empty(const struct slot_page *page)
{
    return page->slots == page->unused;
}

unsigned slot_room(const struct slot_page *page)
{
    struct unit_map map;
    unsigned area = area_units(page->slots + (page->unused == 0)), start, room;
    if (!header_is_sound(page) || area + page->stack > SLOT_UNITS)
        return 0;
    room = SLOT_UNITS - page->stack - area;
    if (page->free > room) {              /* there are holes */
        if (map_make(&map, page, area) != 0)
            return 0;
        map_find(&map, SLOT_UNITS + 1, &start, &room);
    }
    return (room < SLOT_SMALL_MAX ? room : SLOT_SMALL_MAX) * SLOT_UNIT_BYTES;
}

int slot_check(const struct slot_page *page)
{
    struct unit_map map;
    unsigned used = 0, unused = 0, runs = 0;
    if (!header_is_sound(page) || map_make(&map, page, area_units(page->slots)) != 0)
        return -EUCLEAN;                                               /* SL1, SL2 */
    for (unsigned unit = 0; unit < SLOT_UNITS; unit++)
        used += (unsigned)map_test(&map, unit);
    for (unsigned i = 0; i < page->slots; i++) {
        unused += page->slot[i].units == 0;
        runs += page->slot[i].units == SLOT_RUNS_ON;
        if (page->slot[i].units == 0 && page->slot[i].start != 0)
            return -EUCLEAN;                                           /* SL4 */
    }
    if (used + page->free != SLOT_UNITS)
        return -EUCLEAN;                                               /* SL3 */
    if (unused != page->unused || stack_units(page) != page->stack)
        return -EUCLEAN;                                               /* SL4 */
    return runs <= 1 && (runs == 1 || page->tail == 0) ? 0 : -EUCLEAN; /* SL5 */
}
