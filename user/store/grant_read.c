/*
 * grant_read.c - the table of grants as the disk has it: read once, when the manager starts.
 *
 * Two walks over all names. The first takes the rows of links, then each gets its parent, those
 * with small serials first: so a parent is judged before what was made of it, and circles cannot
 * be. The second gives each grant its entry. At last each directory must have a way up to the root.
 * Whatever was forged is not in the table; and nothing that is not in the table counts.
 */
#include "directory_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char next_serial_name[] = "\4next";
static const char hexadecimal[] = "0123456789abcdef";
enum { SERIAL_DIGITS = 16, PIECE = 4096 };

uint64_t row_serial(const char *name)
{
    uint64_t serial = 0;
    if (name[0] != 4 || strlen(name) != 1 + SERIAL_DIGITS) return 0;
    for (unsigned i = 1; i <= SERIAL_DIGITS; i++) {
        const char *digit = strchr(hexadecimal, name[i]);
        if (!digit) return 0;
        serial = serial << 4 | (uint64_t)(digit - hexadecimal);
    }
    return serial;
}

void row_name(char name[STORE_NAME_BYTES], uint64_t serial)
{
    memset(name, 0, STORE_NAME_BYTES);
    name[0] = 4;
    for (unsigned i = 0; i < SERIAL_DIGITS; i++)
        name[1 + i] = hexadecimal[serial >> (60 - 4 * i) & 15];
}

/* name_next goes through all names of the store, one after the other. */
static bool name_next(struct directory *d, uint32_t *cursor, uint64_t *object,
                      struct store_name *out)
{
    int r;
    do r = store_name_any(d->store, cursor, PIECE, object, out);
    while (r == -EAGAIN);
    return r == 0;
}

/* ---- rows */

/* row_take takes a row; of two with one serial nobody knows which is forged. */
static void row_take(struct directory *d, uint64_t serial, uint64_t number,
                     const struct store_name *row)
{
    uint32_t at = grant_find(d, serial);
    if (at) {
        d->grants[at].flags |= GRANT_FORGED;
        return;
    }
    at = grant_add(d, serial, directory_of_number(d, number), 0, (uint32_t)row->bytes);
    d->grants[at].directory = row->address;
    if (row->bytes >> 32 || serial >= SERIAL_MAX) d->grants[at].flags |= GRANT_FORGED;
    if (serial < SERIAL_MAX && serial >= d->next) d->next = serial + 1;
}

static int rows_take(struct directory *d, struct directory_report *report)
{
    struct store_name name;
    uint32_t cursor = 0;
    uint64_t object, serial;
    int r = 0;
    if (d->root && store_name_find(d->store, d->root, next_serial_name, &name) == 0 &&
        name.address < SERIAL_MAX && name.address > d->next)
        d->next = name.address;
    while (r == 0 && name_next(d, &cursor, &object, &name)) {
        if (!(serial = row_serial(name.name))) continue;
        if (serial & DIRECTORY_FIRST) {         /* these have none */
            report->forged++;
            continue;
        }
        r = grants_reserve(d, 1);
        if (r == 0 && grant_find(d, serial)) report->forged++;
        if (r == 0) row_take(d, serial, object, &name);
    }
    return r;
}

struct order { uint64_t serial; uint32_t at; };

static int order_compare(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

/* row_parent finds a row's parent (DG1), or 0. There is room for a first grant. */
static uint32_t row_parent(struct directory *d, uint32_t at)
{
    const struct grant *g = &d->grants[at];
    uint64_t above = g->directory, container = g->container;
    uint32_t rights = g->rights;
    if (g->flags & GRANT_FORGED || !above || !rights || rights & ~(uint32_t)DIRECTORY_ALL)
        return 0;
    if (above & DIRECTORY_FIRST)
        return above == (DIRECTORY_FIRST | container) ? grant_first(d, container) : 0;
    uint32_t parent = above < g->serial ? grant_find(d, above) : 0;
    if (!parent) return 0;
    const struct grant *p = &d->grants[parent];
    return p->flags & GRANT_FORGED || p->container != container || rights & ~p->rights ||
                   p->depth >= DIRECTORY_DEPTH
               ? 0
               : parent;
}

static int rows_hang(struct directory *d, struct directory_report *report)
{
    uint32_t count = 0, rows = d->top ? d->top - 1 : 0;
    struct order *order = malloc((rows + 1) * sizeof(*order));
    int r = order ? grants_reserve(d, rows) : -ENOMEM; /* a first grant for each */
    for (uint32_t i = 1; r == 0 && i <= rows; i++)
        order[count++] = (struct order){ d->grants[i].serial, i };
    if (r == 0) qsort(order, count, sizeof(*order), order_compare);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = order[i].at, parent = row_parent(d, at);
        d->grants[at].directory = 0;
        if (parent)
            grant_hang(d, at, parent);
        else
            d->grants[at].flags |= GRANT_FORGED;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!(d->grants[order[i].at].flags & GRANT_FORGED)) continue;
        grant_end(d, order[i].at);
        report->forged++;
    }
    free(order);
    return r;
}

/* ---- entries */

/* entry_take gives an entry's grant its place (DG2): false, it names nothing. There is room. */
static bool entry_take(struct directory *d, uint64_t directory, const struct store_name *entry)
{
    uint64_t serial = entry->address, number = serial & ~DIRECTORY_FIRST;
    struct store_container c;
    uint32_t at = 0;
    if (!directory_name_ok(entry->name)) return false;
    if (!(serial & DIRECTORY_FIRST))
        at = grant_find(d, serial);
    else if (directory != DIRECTORY_ROOT && number == entry->bytes && number != d->root &&
             store_container_get(d->store, number, &c) == 0)
        at = grant_first(d, number);
    if (!at || d->grants[at].flags & GRANT_ENTRY ||
        d->grants[at].container != directory_of_number(d, entry->bytes))
        return false;
    grant_entry(d, at, directory, entry->slot);
    return true;
}

static int entries_take(struct directory *d, struct directory_report *report)
{
    struct store_name name;
    uint32_t cursor = 0;
    uint64_t object, last = 0;
    bool is = false;
    int r = 0;
    while (r == 0 && name_next(d, &cursor, &object, &name)) {
        if (object != last) is = directory_is(d, directory_of_number(d, object));
        last = object;
        if (!is || directory_name_reserved(name.name)) continue;
        r = grants_reserve(d, 1);
        if (r == 0 && !entry_take(d, directory_of_number(d, object), &name)) report->dangling++;
    }
    return r;
}

/* homes_check (DG3) puts what has no way up into the root, so one of each circle. */
static void homes_check(struct directory *d, struct directory_report *report)
{
    for (uint32_t i = 1; i < d->top; i++) {
        struct grant *g = &d->grants[i];
        if (!(g->serial & DIRECTORY_FIRST) || !(g->flags & GRANT_ENTRY)) continue;
        uint64_t at = g->directory;
        unsigned steps = 0;
        while (at != DIRECTORY_ROOT && steps++ < DIRECTORY_DEPTH) at = directory_home(d, at);
        if (at == DIRECTORY_ROOT) continue;
        g->flags &= (uint8_t)~GRANT_ENTRY;
        g->directory = DIRECTORY_ROOT;
        report->lost++;
    }
}

static void directories_count(struct directory *d, struct directory_report *report)
{
    struct store_container c = { .object = 0 };
    while (store_container_next(d->store, c.object, &c) == 0)
        report->directories += c.flags & DIRECTORY_FLAG && c.object != d->root;
}

int grants_read(struct directory *d, struct directory_report *report)
{
    struct store_container root;
    if (store_container_find(d->store, DIRECTORY_ROOT_NAME, &root) == 0 &&
        root.flags & DIRECTORY_FLAG)
        d->root = root.object;
    d->next = 1;
    int r = rows_take(d, report);
    if (r == 0) r = rows_hang(d, report);
    if (r == 0) r = entries_take(d, report);
    if (r < 0) return r;
    homes_check(d, report);
    directories_count(d, report);
    report->grants = d->links;
    report->next = d->next;
    return 0;
}
