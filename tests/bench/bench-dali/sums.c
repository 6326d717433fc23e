/*
 * sums.c - a sum of each item in its header (PS_PART_SUMS) beside codewords: what each costs, and
 * which of the same damages it finds.
 *
 * For -icount, one CPU, store.audit_kib=0 and scripts/run --wild: the host changes words of
 * committed pages where it is asked to.
 */
#include <item_layer.h>

#include "bench.h"
#include "store_protocol.h"
#include "tests/guest/lib/wild.h"

enum { ITEMS = 96, WORDS = 150, HITS = 12, BESIDE = 40, EACH = 10, COMMITS = 60, BITS = 0x40 };
enum { NEITHER, SUMS, CODEWORDS, BOTH, PAGES, PARTS };
static const struct ps_part_wish wish[PARTS] = {
    {.name = "neither", .flags = PS_PART_ITEMS | PS_PART_APART},
    {.name = "sums", .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_SUMS},
    {.name = "codewords", .flags = PS_PART_ITEMS | PS_PART_APART,
     .protection = PS_PROTECT_CODEWORDS},
    {.name = "both", .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_SUMS,
     .protection = PS_PROTECT_CODEWORDS},
    {.name = "pages", .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_SUMS | PS_PART_PAGES,
     .protection = PS_PROTECT_CODEWORDS}};
static ps_part *part;
static ps_item_id id[ITEMS];

static uint64_t *data_of(unsigned i)
{
    return ps_item_header(id[i])->data;
}

static int make(void *unused)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        id[i] = ps_item_make(part, "item", WORDS * sizeof(uint64_t));
        uint64_t *data = id[i] ? ps_begin_access(id[i], PS_X) : NULL;
        if (!data)
            return -errno;
        data[0] = (uint64_t)(uintptr_t)part << 16 | i; /* no other page has it */
    }
    return unused != NULL;
}

static int update(void *seed)
{
    for (unsigned i = 0; i < EACH; i++) {
        unsigned n = (*(unsigned *)seed += 37) % ITEMS;
        uint64_t *data = ps_begin_access(id[n], PS_X);
        if (!data)
            return -errno;
        data[1 + i]++;
    }
    return 0;
}

static int look(void *seed)
{
    unsigned *from = seed, count = from[1];
    for (unsigned i = 0; i < count; i++)
        if (!ps_begin_access(id[(*from += 37) % ITEMS], PS_S))
            return -errno;
    return 1;
}

static int accesses(void *arg)
{
    return ps_begin_access(id[*(unsigned *)arg], PS_S) ? 0 : -errno;
}

static uint64_t found_by_sums(void)
{
    uint64_t found = 0;
    for (unsigned i = 0; i < ITEMS; i++)
        found += ps_transaction(accesses, &i) == -EIO;
    return found;
}

/* Pages that the auditor has found and mended, behind a round that is made now. */
static uint64_t found_by_audit(void)
{
    struct kd_message m = {.kind = STORE_AUDIT, .word = {1}, .handle = -1};
    long port = kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    long e = port < 0 ? port : kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    if (e || m.status || m.word[2] != m.word[3])
        fail("an audit", e ? e : m.status);
    return m.word[2];
}

/* The page of `at` is told by two of its words; one is hit. */
static void hit(const void *of, unsigned word)
{
    const uint64_t *page = (const uint64_t *)((uintptr_t)of & ~(uintptr_t)(KD_PAGE_BYTES - 1));
    unsigned i = (unsigned)((const uint64_t *)of - page);
    if (wild_write((struct wild_page){i, page[i], i + 1, page[i + 1]}, word, BITS) < 1)
        fail("a wild write", ENOENT);
}

static int hit_data(void *unused)
{
    for (unsigned i = 0; i < HITS; i++) {
        const uint64_t *data = data_of(i * 3);
        hit(data, (unsigned)((uintptr_t)(data + 20) % KD_PAGE_BYTES / 8));
    }
    return unused != NULL;
}
static int hit_beside(void *unused)
{
    for (unsigned i = 0; i < HITS; i++)
        hit(data_of(i * 3), BESIDE);
    return unused != NULL;
}

/* A program stores where it means something else, in transactions that commit. */
static int stray(void *arg)
{
    data_of(*(unsigned *)arg * 3)[77] ^= BITS;
    return 0;
}

static void found(const char *what, int e)
{
    char text[120];
    uint64_t before = found_by_audit(), sums;
    if (e == 0 && what[0] == 'd')
        e = ps_transaction(hit_data, NULL);
    else if (e == 0 && what[0] == 'b')
        e = ps_transaction(hit_beside, NULL);
    for (unsigned i = 0; e == 0 && what[0] == 's' && i < HITS; i++)
        e = ps_transaction(stray, &i);
    if (e)
        fail(what, e);
    sums = found_by_sums();
    snprintf(text, sizeof text, "%s, of %u: found by sums", what, HITS);
    row(text, "damages", (double)sums, "-");
    snprintf(text, sizeof text, "%s: pages found by codewords, and mended", what);
    row(text, "pages", (double)(found_by_audit() - before), "-");
}

static void costs(ps_file *file)
{
    double updates[PARTS], looks[PARTS];
    for (unsigned k = 0; k <= BOTH; k++) {
        unsigned seed = 1, few[2] = {1, 100}, more[2] = {1, 200};
        char text[120];
        part = ps_file_part(file, wish[k].name);
        int e = ps_transaction(make, NULL);
        if (e)
            fail(wish[k].name, e);
        updates[k] = median_cost(update, &seed, COMMITS, 0) / EACH;
        looks[k] = (median_cost(look, more, 21, 1) - median_cost(look, few, 21, 1)) / 100;
        snprintf(text, sizeof text, "%s: a change of an item of 1,200 bytes, 10 in a transaction",
                 wish[k].name);
        row(text, "instructions", updates[k], "-");
        row("the same, of neither", "times", updates[k] / updates[0], "-");
        snprintf(text, sizeof text, "%s: an access to read", wish[k].name);
        row(text, "instructions", looks[k], "-");
    }
}

void group_sums(void)
{
    ps_file *file = ps_file_open("bench-sums", PS_CREATE | PS_WRITE, wish, PARTS);
    if (!file)
        fail("a file", errno);
    costs(file);
    part = ps_file_part(file, wish[BOTH].name);
    found("data of items that are hit", 0);
    found("bytes beside items that are hit", 0);
    part = ps_file_part(file, wish[PAGES].name);
    int e = ps_transaction(make, NULL);
    if (e)
        fail("items", e);
    found("stray stores of programs, pages locked", 0);
}
