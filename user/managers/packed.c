/*
 * packed.c - a container that takes less room in the store: its pages are kept packed by LZ4.
 *
 *     store manager NAME packed 8     from now on this program serves NAME; its packed pages have
 *                                     8 MiB of the container NAME.packed
 *
 * Step 5 of libpstore/managers.md: persistent and recoverable. The store starts it when somebody
 * opens NAME, again after its death, and ends it when nobody has NAME open. It remembers nothing
 * between two calls of its functions but where the search for room begins, so there is nothing to
 * recover: all that it keeps lies in NAME.packed, and changes with its client's transactions.
 */
#include <lz4.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager.h"
#include "pstore.h"

enum { UNIT = 256, UNITS_A_MIB = (1 << 20) / UNIT, MIB_MAX = 64 };

/* In the store. A packed page has units that follow each other; of 4,096 bytes: it did not become
 * smaller; of none: it is zero. */
struct place { uint32_t unit : 19, bytes : 13; };
struct root {
    uint64_t units;
    struct place *place;                /* of each page of NAME */
    uint8_t *used;                      /* 1: the unit has a part of a page */
    char (*unit)[UNIT];
};
static ps_container *box;
static struct root *root;

/* ---- packed pages; in a transaction of the store's. 0 or -errno ---- */

static unsigned units_of(unsigned bytes) { return (bytes + UNIT - 1) / UNIT; }

static int unpack(uint64_t page, char to[KM_PAGE_BYTES])
{
    struct place p = root->place[page];
    if (p.bytes == 0)
        memset(to, 0, KM_PAGE_BYTES);
    else if (p.bytes == KM_PAGE_BYTES)
        memcpy(to, root->unit[p.unit], KM_PAGE_BYTES);
    else if (LZ4_decompress_safe(root->unit[p.unit], to, p.bytes, KM_PAGE_BYTES) != KM_PAGE_BYTES)
        return -EUCLEAN;
    return 0;
}

/* n free units that follow each other, from where the last ones were found; ~0: there are none. */
static uint32_t units_find(unsigned n)
{
    static uint64_t from;
    for (uint64_t looked = 0, at = from, run = 0; looked < root->units + n; looked++, at++) {
        if (at >= root->units) at = run = 0;
        run = root->used[at] ? 0 : run + 1;
        if (run < n) continue;
        from = at + 1;
        return (uint32_t)(from - n);
    }
    return ~0u;
}

static int pack(uint64_t page, const char from[KM_PAGE_BYTES])
{
    char small[KM_PAGE_BYTES - 1];
    struct place *p = &root->place[page];
    int packed = LZ4_compress_default(from, small, KM_PAGE_BYTES, sizeof small);
    unsigned bytes = packed > 0 ? (unsigned)packed : KM_PAGE_BYTES;
    uint32_t unit = p->unit;
    if (units_of(bytes) != units_of(p->bytes)) {
        memset(root->used + unit, 0, units_of(p->bytes));
        unit = units_find(units_of(bytes));
        if (unit == ~0u) return -ENOSPC; /* undone, with what was freed just now */
        memset(root->used + unit, 1, units_of(bytes));
    }
    memcpy(root->unit[unit], packed > 0 ? small : from, bytes);
    p->unit = unit & 0x7ffff;
    p->bytes = bytes & 0x1fff;
    return 0;
}

/* ---- the policy ---- */

static void page(struct km_request *r)
{
    char bytes[KM_PAGE_BYTES];
    int error = unpack(r->page, bytes);
    km_answer(r, bytes, 1, error);
}

/* The runs of a page follow each other: it is unpacked, changed, and packed anew. */
struct unpacked { uint64_t page; char bytes[KM_PAGE_BYTES]; };
static int change(const struct km_run *r, void *unpacked)
{
    struct unpacked *u = unpacked;
    int error = r->page == u->page ? 0 : unpack(r->page, u->bytes);
    u->page = r->page;
    memcpy(u->bytes + r->offset, r->data, r->bytes);
    return !error && r->flags & KM_RUN_LAST ? pack(r->page, u->bytes) : error;
}

static int commit(struct km_object *o, uint64_t view)
{
    return km_diff_each(o, view, change, &(struct unpacked){.page = ~0ull});
}

/* ---- start ---- */

/* All room is made here: so it has an end. */
static int set_up(void *mib)
{
    root = ps_root(box);
    if (!root) return -errno;
    if (root->units) return 0;
    root->units = *(uint64_t *)mib * UNITS_A_MIB;
    root->place = ps_alloc(box, km_container_pages() * sizeof *root->place, NULL);
    root->used = ps_alloc(box, root->units, NULL);
    root->unit = ps_alloc(box, root->units * UNIT, NULL);
    return root->place && root->used && root->unit ? 0 : -errno;
}

static int serve(const char *name, uint64_t mib)
{
    static const struct km_ops ops = {.page = page, .commit = commit};
    struct km_object *object;
    int error = km_below_own(name, "packed", PS_LAYOUT(struct root, 1), &box);
    if (!error) error = ps_transaction(set_up, &mib);
    if (!error) error = km_container(KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object);
    return error ? error : km_serve(2);
}

KM_CHECKS;
int main(int argc, char **argv)
{
    bool asked = argc > 2 && strcmp(argv[1], "--check") == 0; /* ... NAME MIB */
    const char *name = asked ? argv[2] : km_container_name();
    uint64_t mib = argc == (asked ? 4 : 2) ? strtoull(argv[argc - 1], NULL, 10) : 0;
    int error = !name || !mib || mib > MIB_MAX ? -EINVAL : asked ? 0 : serve(name, mib);
    if (!error) return 0;
    if (error == -EINVAL)
        fprintf(stderr, "packed: say `store manager NAME packed MIB`, %d at most\n", MIB_MAX);
    else
        fprintf(stderr, "packed: cannot serve %s: %s\n", name, ps_strerror(error));
    return 1;
}
