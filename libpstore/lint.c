/*
 * lint.c - ps_lint: pointers into volatile memory that a transaction is about to make durable.
 *
 * The kernel tells which words differ from the committed version (KD_TXN_CHANGES), and what this
 * process has mapped (KD_LOOK_MAP); a changed word whose value lies in the stack, the heap, other
 * volatile memory or the program itself is reported. A number may look like such an address by
 * chance; only words of objects are looked at, not the slots of their pages. Other changed words
 * are reported themselves, one for each page: they are of no object, but of one that was freed, or
 * never made. Stores to an object that the same transaction freed afterwards are its own affair.
 *
 * What an object is called comes from a ring of those that ps_new, ps_root and ps_named gave out
 * while it was on; fields from ps_describe. Nothing of it is stored.
 *
 * Locks: none (TX1): the ring's places are given out by an atomic counter, and an entry that is
 * overwritten while it is read makes a wrong word in a message at worst. Messages go out by
 * write().
 */
#include "pstore_private.h"

#include <katydid/call.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOTES_MAX = 1024, TYPES_MAX = 32, FIELDS_MAX = 16, REPORTS_MAX = 20, FREED_MAX = 256,
       MAP_BYTES_MIN = 16384 };
#define VOLATILE_END 0x8000000000ull      /* all volatile memory lies in the first 512 GiB */

int lint_on;
__thread const char *ps_place;

static struct note { uint64_t address, bytes; char what[48]; } notes[NOTES_MAX];
static _Atomic unsigned notes_count;

static struct freed { const struct ps_tx *tx; uint64_t address, bytes; } freed[FREED_MAX];
static _Atomic unsigned freed_count;

static struct description { char type[48]; struct ps_field field[FIELDS_MAX]; } types[TYPES_MAX];
static unsigned types_count;

static __attribute__((constructor)) void lint_environment(void)
{
    const char *value = getenv("PS_LINT");
    lint_on = value && strcmp(value, "1") == 0;
}

int ps_lint(int on)
{
    int before = lint_on;
    lint_on = on != 0;
    return before;
}

int ps_describe(const char *type, const struct ps_field *fields)
{
    unsigned n = 0;
    if (types_count == TYPES_MAX || !type_number(type))
        return types_count == TYPES_MAX ? -ENOSPC : -errno;
    struct description *d = &types[types_count++];
    snprintf(d->type, sizeof d->type, "%s", type);
    for (; n < FIELDS_MAX && fields[n].name; n++)
        d->field[n] = fields[n];
    return fields[n].name ? -E2BIG : 0;
}

void lint_note(const void *object, uint64_t bytes, const char *what)
{
    struct note *n = &notes[notes_count++ % NOTES_MAX];
    *n = (struct note){.address = (uintptr_t)object, .bytes = bytes};
    snprintf(n->what, sizeof n->what, "%s", what);
}

void lint_freed(const struct ps_tx *tx, const void *object, uint64_t bytes)
{
    freed[freed_count++ % FREED_MAX] = (struct freed){tx, (uintptr_t)object, bytes};
}

/* note_at finds the youngest note of an object with a byte there; NULL: none. */
static const struct note *note_at(uint64_t address)
{
    unsigned end = notes_count;
    for (unsigned i = 1; i <= NOTES_MAX && i <= end; i++) {
        const struct note *n = &notes[(end - i) % NOTES_MAX];
        if (address >= n->address && address - n->address < n->bytes)
            return n;
    }
    return NULL;
}

void lint_moved(const void *from, const void *to, uint64_t bytes)
{
    const struct note *n = note_at((uintptr_t)from);
    struct note copy = n ? *n : (struct note){0}; /* the ring may need its place for the new one */
    if (copy.address == (uintptr_t)from)
        lint_note(to, bytes, copy.what);
}

static const struct ps_field *field_at(const char *type, uint64_t offset)
{
    for (unsigned t = 0; t < types_count; t++)
        for (const struct ps_field *f = types[t].field; strcmp(types[t].type, type) == 0 &&
             f < types[t].field + FIELDS_MAX && f->name; f++)
            if (offset >= f->offset && offset - f->offset < f->bytes)
                return f;
    return NULL;
}

/* ---- what memory a value lies in ---- */

/* region_kind reads a line of KD_LOOK_MAP: 0xSTART - 0xEND rwx N KiB, M resident NAME. */
static const char *region_kind(const char *line, uint64_t start, uint64_t end)
{
    const char *name = strstr(line, "resident"), *newline = strchr(line, '\n');
    int here = (uint64_t)(uintptr_t)&name >= start && (uint64_t)(uintptr_t)&name < end;
    const char *stack = strstr(line, "[stack]"), *heap = strstr(line, "[heap]");
    if (here || (stack && stack < newline))
        return "is on the stack";
    if (heap && heap < newline)
        return "is in the heap";
    if (memchr(name ? name : line, '/', (size_t)(newline - (name ? name : line))))
        return "is in the program";
    return "is in volatile memory (malloc, mmap, a thread's stack)";
}

/* value_kind tells what memory a value points to; NULL: nowhere, or to what lasts. */
static const char *value_kind(const char *map, uint64_t value)
{
    unsigned long long start, end;
    if ((uintptr_t)ps_home((void *)(uintptr_t)value) != value)
        return "is in a window (ps_home tells the address in the container)";
    if (value < KD_PAGE_BYTES || value >= VOLATILE_END)
        return NULL;
    for (const char *line = map; sscanf(line, "0x%llx - 0x%llx", &start, &end) == 2;) {
        const char *newline = strchr(line, '\n');
        if (!newline)
            return NULL;
        if (value >= start && value < end)
            return region_kind(line, start, end);
        line = newline + 1;
    }
    return NULL;
}

/* ---- the check ---- */

/* say reports that `what` is wrong with the word there. */
static void say(const struct ps_tx *tx, const ps_container *c, uint64_t address, const char *what)
{
    char line[320], object[128] = "";
    const struct note *n = note_at(address);
    const struct ps_field *f = n ? field_at(n->what, address - n->address) : NULL;
    if (n)
        snprintf(object, sizeof object, " (%s, %s%s%llu bytes in)", n->what, f ? f->name : "",
                 f ? ", " : "", (unsigned long long)(address - n->address));
    int bytes = snprintf(line, sizeof line,
                         "ps_lint: container %s, offset 0x%llx%s: %s; commit at %s\n", c->name,
                         (unsigned long long)(address - c->base), object, what,
                         tx->place ? tx->place : "an unknown line");
    if (bytes > 0)
        (void)!write(2, line, (size_t)bytes < sizeof line ? (size_t)bytes : sizeof line - 1);
}

static void say_pointer(const struct ps_tx *tx, const ps_container *c, uint64_t address,
                        uint64_t value, const char *kind)
{
    char what[96];
    snprintf(what, sizeof what, "0x%llx %s", (unsigned long long)value, kind);
    say(tx, c, address, what);
}

/* of_object tells whether a word of a slotted page is of an object: others are no pointers. */
static int of_object(uint64_t address)
{
    const struct slot_page *page = (const struct slot_page *)(uintptr_t)PAGE_OF(address);
    return !slot_is_page(page) ||
           slot_object_at(page, (unsigned)(address % KD_PAGE_BYTES) / SLOT_UNIT_BYTES) != 0;
}

/* ---- stores to no object ---- */

static int freed_now(const struct ps_tx *tx, uint64_t address)
{
    for (unsigned i = 0; i < FREED_MAX; i++)
        if (freed[i].tx == tx && address - freed[i].address < freed[i].bytes)
            return 1;
    return 0;
}

/* page_in_operations: does tx make the page part of a large object, or give it back? */
static int page_in_operations(const struct ps_tx *tx, uint64_t page)
{
    const ps_container *c = ps_container_of((void *)(uintptr_t)page);
    const struct tx_ops *b = c ? tx_ops_in(tx, c->store) : NULL;
    for (size_t at = 0; b && at < b->bytes;) {
        const struct wire_op *op = (const void *)(b->ops + at);
        if ((op->kind == WIRE_PAGE_CLAIM || op->kind == WIRE_PAGE_FREE) &&
            page - op->address < op->value * KD_PAGE_BYTES)
            return 1;
        at += op->op_bytes;
    }
    return 0;
}

/* page_is_held: has a commit written or claimed it before? Yes, if nobody can be asked. */
static int page_is_held(const ps_container *c, uint64_t page)
{
    uint64_t word[STORE_REQUEST_WORDS] = {page};
    return store_request(c->store, STORE_HELD, word, NULL, 0, NULL, NULL) != 0 || word[0];
}

/* is_slots: may the library have changed the word, as header, slot, or what was a slot before? */
static int is_slots(const struct slot_page *page, unsigned offset)
{
    return offset < slot_area_bytes(page) ||
           (offset < slot_area_bytes_max(page) &&
            *(const uint64_t *)(const void *)((const char *)page + offset) == 0);
}

/* looked_at_whole: the page was in the log already, so nobody knows what it was before. */
static int looked_at_whole(const struct kd_changes *changes)
{
    uint64_t all = ~0ull;
    for (unsigned i = 0; i < KD_PAGE_BYTES / 8 / 64; i++)
        all &= changes->words[i];
    return all == ~0ull;
}

/* stray_word returns the address of a changed word that is of no object; 0: none in the page. */
static uint64_t stray_word(const struct ps_tx *tx, const ps_container *c,
                           const struct kd_changes *changes)
{
    const struct slot_page *page = (const struct slot_page *)(uintptr_t)changes->address;
    int slotted = slot_is_page(page);
    if (slotted ? looked_at_whole(changes) : page_in_operations(tx, changes->address))
        return 0;
    for (unsigned w = 0; w < KD_PAGE_BYTES / 8; w++) {
        uint64_t address = changes->address + w * 8;
        if (!(changes->words[w / 64] >> w % 64 & 1))
            continue;
        if (!slotted)
            return page_is_held(c, changes->address) ? 0 : address;
        if (!of_object(address) && !is_slots(page, w * 8) && !freed_now(tx, address))
            return address;
    }
    return 0;
}

static int check_page(const struct ps_tx *tx, const char *map, const struct kd_changes *changes,
                      int told)
{
    const ps_container *c = ps_container_of((void *)(uintptr_t)changes->address);
    for (unsigned w = 0; c && w < KD_PAGE_BYTES / 8; w++) {
        if (!(changes->words[w / 64] >> w % 64 & 1))
            continue;
        uint64_t address = changes->address + w * 8,
                 value = *(volatile uint64_t *)(uintptr_t)address;
        const char *kind = value_kind(map, value);
        if (kind && of_object(address) && told++ < REPORTS_MAX)
            say_pointer(tx, c, address, value, kind);
    }
    uint64_t stray = c ? stray_word(tx, c, changes) : 0;
    if (stray && told++ < REPORTS_MAX)
        say(tx, c, stray, "a store to no object (freed, or never allocated)");
    return told;
}

/* map_read reads what this process has mapped into a buffer that tx keeps; NULL: no memory. */
static const char *map_read(struct ps_tx *tx)
{
    size_t wanted = MAP_BYTES_MIN;
    while (tx_memory(&tx->map, &tx->map_size, wanted, 0) == 0) {
        long bytes =
            kd_call4(KD_LOOK, KD_LOOK_MAP, getpid(), (long)tx->map, (long)tx->map_size - 1);
        if (bytes < 0)
            break;
        tx->map[bytes] = 0;
        if ((size_t)bytes < tx->map_size - 1)
            return tx->map;
        wanted = tx->map_size * 2;
    }
    return NULL;
}

void lint_check(struct ps_tx *tx)
{
    const char *map = map_read(tx);
    struct kd_changes changes = {0};
    int told = 0;
    if (!map)
        dprintf(2, "ps_lint: no memory; commit at %s not looked at\n",
                tx->place ? tx->place : "an unknown line");
    while (map && ps_kernel(KD_TXN_CHANGES, (long)changes.address, (long)&changes, 0) == 0) {
        told = check_page(tx, map, &changes, told);
        changes.address += KD_PAGE_BYTES;
    }
    for (unsigned i = 0; i < FREED_MAX; i++)
        if (freed[i].tx == tx)
            freed[i].tx = NULL;
    if (told > REPORTS_MAX)
        dprintf(2, "ps_lint: and %d more\n", told - REPORTS_MAX);
}
