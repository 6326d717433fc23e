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

static uint32_t page_number(const struct slot_page *page)
{
    return (uint32_t)((uintptr_t)page / SLOT_PAGE_BYTES);
}

int slot_is_marked(const struct slot_page *page)
{
    return page->seal == (SLOT_SEAL_MARKED ^ page_number(page));
}

/* area_bytes returns the bytes of the header and `slots` slots. */
static unsigned area_bytes(const struct slot_page *page, unsigned slots)
{
    return slot_is_marked(page)
               ? (unsigned)(sizeof(struct slot_page_marked) + slots * sizeof(struct slot_marked))
               : (unsigned)(sizeof(struct slot_page) + slots * sizeof(struct slot));
}

unsigned slot_area_units(const struct slot_page *page, unsigned slots)
{
    return (area_bytes(page, slots) + SLOT_UNIT_BYTES - 1) / SLOT_UNIT_BYTES;
}

unsigned slot_area_bytes(const struct slot_page *page)
{
    return area_bytes(page, page->slots);
}

unsigned slot_area_bytes_max(const struct slot_page *page)
{
    return area_bytes(page, SLOT_COUNT_MAX);
}

/* slot_at returns slot i; the two kinds of slots begin alike. */
static struct slot *slot_at(const struct slot_page *page, unsigned i)
{
    struct slot_page *p = (struct slot_page *)(uintptr_t)page;
    return slot_is_marked(page) ? &((struct slot_page_marked *)(void *)p)->slot[i].slot
                                : &p->slot[i];
}

static void type_put(struct slot_page *page, unsigned i, uint32_t type)
{
    if (slot_is_marked(page))
        memcpy(((struct slot_page_marked *)(void *)page)->slot[i].type, &type, sizeof type);
}

/* units_zero zeros units without memset, whose call costs much; the barrier keeps it out. */
static void units_zero(struct slot_page *page, unsigned start, unsigned units)
{
    uint64_t *word = (uint64_t *)((char *)page + (size_t)start * SLOT_UNIT_BYTES);
    for (uint64_t *end = word + units * (SLOT_UNIT_BYTES / 8); word < end; word += 2) {
        word[0] = word[1] = 0;
        __asm__ volatile("" ::: "memory");
    }
}

/* slot_start, slot_units_here: a slot's units in this page; a run may start at SLOT_UNITS. */
static unsigned slot_start(struct slot s)
{
    return s.units == SLOT_RUNS_ON && s.start == 0 ? SLOT_UNITS : s.start;
}

static unsigned slot_units_here(struct slot s)
{
    return s.units == SLOT_RUNS_ON ? SLOT_UNITS - slot_start(s) : s.units;
}

/* page_sound: in test builds, do all invariants hold? What was spoilt before may stay so. */
static int page_sound(const struct slot_page *page)
{
    return TESTING && slot_check(page) == 0;
}

static int header_is_sound(const struct slot_page *page)
{
    return slot_is_page(page) && page->slots <= SLOT_COUNT_MAX && page->unused <= page->slots &&
           slot_area_units(page, page->slots) + page->stack <= SLOT_UNITS;
}

void slot_format(struct slot_page *page)
{
    page->seal = SLOT_SEAL ^ page_number(page);
    page->tail = 0;
    page->slots = page->unused = page->stack = 0;
    page->free = (uint8_t)(SLOT_UNITS - slot_area_units(page, 0));
}

void slot_format_marked(struct slot_page *page, uint64_t arena, uint64_t next)
{
    struct slot_page_marked *marked = (struct slot_page_marked *)(void *)page;
    slot_format(page);
    page->seal = SLOT_SEAL_MARKED ^ page_number(page);
    page->free = (uint8_t)(SLOT_UNITS - slot_area_units(page, 0));
    marked->reserved = 0;
    marked->arena = arena;
    marked->next = next;
}

void slot_unformat(struct slot_page *page)
{
    memset(page, 0, sizeof *page);
}

int slot_is_page(const struct slot_page *page)
{
    return page->seal == (SLOT_SEAL ^ page_number(page)) || slot_is_marked(page);
}

uint64_t slot_arena(const struct slot_page *page)
{
    return slot_is_marked(page) ? ((const struct slot_page_marked *)(const void *)page)->arena : 0;
}

/* ---- the map of a page's units ---- */

static int map_test(const struct unit_map *map, unsigned unit)
{
    return (int)(map->word[unit / 64] >> (unit % 64) & 1);
}

/* map_mark marks units as used; -EUCLEAN if one of them was, or lies outside. */
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
        if (slot_at(page, i)->units != 0)
            result =
                map_mark(map, slot_start(*slot_at(page, i)), slot_units_here(*slot_at(page, i)));
    return result;
}

/* map_find finds the smallest hole of at least `units`: its length, or 0; *start is its first unit.
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

/* slot_take takes a freed slot, or a new one at the end; -EUCLEAN if the header lied. */
static int slot_take(const struct slot_page *page)
{
    if (page->unused == 0)
        return page->slots < SLOT_COUNT_MAX ? page->slots : -EUCLEAN;
    for (int i = 0; i < page->slots; i++)
        if (slot_at(page, i)->units == 0)
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

int slot_alloc(struct slot_page *page, unsigned units, uint32_t type)
{
    int sound = page_sound(page);
    if (!header_is_sound(page))
        return -EUCLEAN;
    if (type && !slot_is_marked(page))
        return -ENOSPC;
    unsigned area_now = slot_area_units(page, page->slots);
    unsigned area = page->unused ? area_now : slot_area_units(page, page->slots + 1u);
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
    *slot_at(page, (unsigned)index) = (struct slot){(uint8_t)start, (uint8_t)units};
    type_put(page, (unsigned)index, type);
    units_zero(page, (unsigned)start, units);
    assert(!sound || page_sound(page));                                         /* SL2, SL3, SL4 */
    return start;
}

void slot_alloc_run(struct slot_page *page, unsigned start, uint32_t tail, uint32_t type)
{
    unsigned units = SLOT_UNITS - start;
    page->tail = tail;
    page->slots = 1;
    page->stack = (uint8_t)units;
    page->free = (uint8_t)(SLOT_UNITS - slot_area_units(page, 1) - units);
    *slot_at(page, 0) = (struct slot){(uint8_t)start, SLOT_RUNS_ON};
    type_put(page, 0, type);
    units_zero(page, start, units);
    assert(page_sound(page) || !TESTING);                                       /* SL5 */
}

/* slot_find returns the slot of the object that begins at `start`, or -EINVAL. */
static int slot_find(const struct slot_page *page, unsigned start)
{
    unsigned slots = page->slots <= SLOT_COUNT_MAX ? page->slots : SLOT_COUNT_MAX;
    for (unsigned i = 0; i < slots; i++)
        if (slot_at(page, i)->start == (uint8_t)start && slot_at(page, i)->units != 0 &&
            slot_start(*slot_at(page, i)) == start)
            return (int)i;
    return -EINVAL;
}

/* stack_units counts units from the lowest object to the page's end. */
static unsigned stack_units(const struct slot_page *page)
{
    unsigned top = SLOT_UNITS;
    for (unsigned i = 0; i < page->slots; i++)
        if (slot_at(page, i)->units != 0 && slot_start(*slot_at(page, i)) < top)
            top = slot_start(*slot_at(page, i));
    return SLOT_UNITS - top;
}

void slot_settle(struct slot_page *page)
{
    unsigned area = slot_area_units(page, page->slots);
    while (page->slots > 0 && slot_at(page, page->slots - 1)->units == 0 && page->unused > 0) {
        page->slots--;
        page->unused--;
    }
    page->stack = (uint8_t)stack_units(page);
    page->free = (uint8_t)(page->free + area - slot_area_units(page, page->slots));
}

/* slot_to_free returns the slot of the object that begins there, or -errno; *units: here. */
static int slot_to_free(const struct slot_page *page, unsigned start, unsigned *units)
{
    if (!slot_is_page(page))
        return -EINVAL;
    if (!header_is_sound(page))
        return -EUCLEAN;
    int index = slot_find(page, start);
    if (index < 0)
        return index;
    *units = slot_units_here(*slot_at(page, (unsigned)index));
    return start + *units > SLOT_UNITS || page->free + *units > SLOT_UNITS ? -EUCLEAN : index;
}

int slot_free(struct slot_page *page, unsigned start, uint32_t *tail)
{
    unsigned units;
    int sound = page_sound(page), index = slot_to_free(page, start, &units);
    *tail = 0;
    if (index < 0)
        return index;
    struct slot *slot = slot_at(page, (unsigned)index);
    if (slot->units == SLOT_RUNS_ON) {
        *tail = page->tail;
        page->tail = 0;
    }
    *slot = (struct slot){0, 0};
    type_put(page, (unsigned)index, 0);
    page->unused++;
    page->free = (uint8_t)(page->free + units);
    slot_settle(page);
    assert(!sound || page_sound(page));                                         /* SL2, SL3, SL4 */
    return 0;
}

int slot_free_beside(struct slot_page *page, unsigned start)
{
    unsigned units;
    int index = slot_to_free(page, start, &units);
    if (index < 0 || slot_at(page, (unsigned)index)->units == SLOT_RUNS_ON)
        return index < 0 ? index : -EINVAL;
    *slot_at(page, (unsigned)index) = (struct slot){0, 0};
    type_put(page, (unsigned)index, 0);
    __atomic_fetch_add(&page->unused, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&page->free, (uint8_t)units, __ATOMIC_RELAXED);
    return 0;
}

int slot_resize(struct slot_page *page, unsigned start, unsigned units)
{
    struct unit_map map;
    int sound = page_sound(page);
    if (!header_is_sound(page) || map_make(&map, page, slot_area_units(page, page->slots)) != 0)
        return -EUCLEAN;
    int index = slot_find(page, start);
    if (index < 0 || slot_at(page, (unsigned)index)->units == SLOT_RUNS_ON)
        return -EINVAL;
    unsigned old = slot_at(page, (unsigned)index)->units;
    if (units > SLOT_SMALL_MAX || (units > old && map_mark(&map, start + old, units - old) != 0))
        return -ENOSPC;
    slot_at(page, (unsigned)index)->units = (uint8_t)units;
    page->free = (uint8_t)(page->free + old - units);
    if (units > old)
        units_zero(page, start + old, units - old);
    assert(!sound || page_sound(page));                                         /* SL2, SL3, SL4 */
    return 0;
}

unsigned slot_object_at(const struct slot_page *page, unsigned unit)
{
    for (unsigned i = 0; header_is_sound(page) && i < page->slots; i++) {
        unsigned start = slot_start(*slot_at(page, i));
        if (slot_at(page, i)->units != 0 && start <= unit &&
            unit - start < slot_units_here(*slot_at(page, i)))
            return start;
    }
    return 0;
}

uint32_t slot_type(const struct slot_page *page, unsigned start)
{
    uint32_t type = 0;
    int index = slot_is_marked(page) ? slot_find(page, start) : -EINVAL;
    if (index >= 0)
        memcpy(&type, ((const struct slot_page_marked *)(const void *)page)->slot[index].type,
               sizeof type);
    return type;
}

int slot_retype(struct slot_page *page, unsigned start, uint32_t type)
{
    int index = slot_is_marked(page) ? slot_find(page, start) : -EINVAL;
    if (index >= 0)
        type_put(page, (unsigned)index, type);
    return index < 0 ? index : 0;
}

unsigned slot_next(const struct slot_page *page, unsigned after, uint32_t type)
{
    unsigned best = 0;
    for (unsigned i = 0; header_is_sound(page) && i < page->slots; i++) {
        unsigned start = slot_start(*slot_at(page, i));
        if (slot_at(page, i)->units != 0 && start > after && (best == 0 || start < best) &&
            (type == 0 || slot_type(page, start) == type))
            best = start;
    }
    return best;
}

uint64_t slot_units(const struct slot_page *page, unsigned start)
{
    int index = slot_is_page(page) ? slot_find(page, start) : -EINVAL;
    if (index < 0)
        return 0;
    struct slot slot = *slot_at(page, (unsigned)index);
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
    unsigned area = slot_area_units(page, page->slots + (page->unused == 0)), start, room;
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
    if (!header_is_sound(page) || map_make(&map, page, slot_area_units(page, page->slots)) != 0)
        return -EUCLEAN;                                               /* SL1, SL2 */
    for (unsigned unit = 0; unit < SLOT_UNITS; unit++)
        used += (unsigned)map_test(&map, unit);
    for (unsigned i = 0; i < page->slots; i++) {
        unused += slot_at(page, i)->units == 0;
        runs += slot_at(page, i)->units == SLOT_RUNS_ON;
        if (slot_at(page, i)->units == 0 && slot_at(page, i)->start != 0)
            return -EUCLEAN;                                           /* SL4 */
    }
    if (used + page->free != SLOT_UNITS)
        return -EUCLEAN;                                               /* SL3 */
    if (unused != page->unused || stack_units(page) > page->stack)
        return -EUCLEAN;                                               /* SL4 */
    return runs <= 1 && (runs == 1 || page->tail == 0) ? 0 : -EUCLEAN; /* SL5 */
}
