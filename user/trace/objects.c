/*
 * objects.c - what lies at an address of a container: the object, and the text of its type.
 *
 * Pages are read in a snapshot, so that nobody waits for the reader. Pages keep a type as a number
 * made of its text; the texts are looked for in the files of the programs that were traced, as
 * `kstore objects` does.
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <string.h>

#include "libpstore/slot.h"
#include "trace.h"

enum { TYPES_MAX = 64, TYPE_TEXT_BYTES = 64, RUN_PAGES_MAX = 4096, PROGRAMS_MAX = 16 };

static struct { uint32_t number; char text[TYPE_TEXT_BYTES]; } types[TYPES_MAX];
static char learned[PROGRAMS_MAX][KD_NAME_MAX];
static unsigned type_count;

/* ---- objects ---- */

struct question { uint64_t address; struct spot *spot; };

/* The object of that page that runs on through `pages` more. Its first unit; 0: there is none. */
static unsigned runner_find(const struct slot_page *page, uint64_t pages)
{
    for (unsigned start = slot_next(page, 0, 0), next; start; start = next) {
        if (start + slot_units(page, start) > pages * SLOT_UNITS)
            return start;
        next = start < SLOT_UNITS ? slot_next(page, start, 0) : 0;
    }
    return 0;
}

/* In a transaction: pages without a header belong to an object that begins before them. */
static int object_look(void *question)
{
    const struct question *q = question;
    uint64_t at = q->address / SLOT_PAGE_BYTES * SLOT_PAGE_BYTES, pages = 0;
    const struct slot_page *page = (const struct slot_page *)(uintptr_t)at;
    while (!slot_is_page(page) && pages < RUN_PAGES_MAX &&
           ps_container_of((const char *)page - 1) == ps_container_of((void *)(uintptr_t)at)) {
        page = (const struct slot_page *)(uintptr_t)((uintptr_t)page - SLOT_PAGE_BYTES);
        pages++;
    }
    unsigned unit = (unsigned)(q->address % SLOT_PAGE_BYTES / SLOT_UNIT_BYTES);
    unsigned start = pages ? runner_find(page, pages) : slot_object_at(page, unit);
    if (!start)
        return -ENOENT;
    q->spot->type = slot_type(page, start);
    q->spot->offset = q->address - (uintptr_t)page - (uint64_t)start * SLOT_UNIT_BYTES;
    return 0;
}

struct spot spot_at(uint64_t address)
{
    static char opened[KD_NAME_MAX];
    static ps_container *container;
    struct spot spot = {.type = 0, .offset = NO_OBJECT};
    struct question q = {address, &spot};
    uint64_t offset;
    const char *name = object_name(address, &offset);
    if (name && strcmp(name, opened) != 0) {
        snprintf(opened, sizeof opened, "%s", name);
        container = ps_open(name, 0, NULL);
    }
    if (name && container && ps_container_of((void *)(uintptr_t)address) == container)
        ps_transaction_opt(object_look, &q, &(struct ps_options){.isolation = PS_SNAPSHOT});
    return spot;
}

/* ---- texts of types ---- */

static void type_learn(uint32_t number, const char *text)
{
    for (unsigned i = 0; i < type_count; i++)
        if (types[i].number == number && !types[i].text[0])
            snprintf(types[i].text, sizeof types[i].text, "%s", text);
}

/* Each run of printable bytes before a zero byte, and each end of one: linkers share those. */
static void program_read(FILE *file)
{
    char text[TYPE_TEXT_BYTES];
    size_t length = 0;
    for (int c; (c = getc(file)) != EOF;) {
        if (c == 0 && length < sizeof text) {
            text[length] = 0;
            for (size_t i = 0; i < length; i++) {
                type_learn(slot_type_of(text + i), text + i);
                type_learn(slot_type_of(text + i) | SLOT_TYPE_NAME, text + i);
            }
        }
        if (c >= ' ' && c <= '~' && length < sizeof text)
            text[length++ % sizeof text] = (char)c;
        else if (c < ' ' || c > '~')
            length = 0;
    }
}

void types_want(uint32_t number)
{
    unsigned i = 0;
    while (i < type_count && types[i].number != number)
        i++;
    if (number > SLOT_TYPE_ARENA && i == type_count && type_count < TYPES_MAX)
        types[type_count++].number = number;
}

void types_learn(const char *program)
{
    char path[KD_NAME_MAX + 8];
    unsigned i = 0;
    while (i < PROGRAMS_MAX && learned[i][0] && strcmp(learned[i], program) != 0)
        i++;
    if (i == PROGRAMS_MAX || learned[i][0])
        return;
    snprintf(learned[i], sizeof learned[i], "%s", program);
    snprintf(path, sizeof path, "/bin/%s", program);
    FILE *file = fopen(path, "rb");
    if (file) {
        program_read(file);
        fclose(file);
    }
}

const char *type_text(uint32_t number)
{
    static char text[24];
    for (unsigned i = 0; i < type_count; i++)
        if (types[i].number == number && types[i].text[0])
            return types[i].text;
    snprintf(text, sizeof text, "type 0x%x", number);
    return !number ? "no type" : number == SLOT_TYPE_ARENA ? "an arena" : text;
}
