/*
 * store_sparse.c - a container of more than two TiB on a disk of a few MiB, under load by two
 * processes.
 *
 * Aim     its address space costs nothing: the disk pays for the pages that were written, an extent
 *         each where they lie far apart, and gets them back; the store comes again as it was.
 * Method  all of it is leased, a GiB at a time, so that it grows by segments to the last; the first
 *         page holds the places of its edges: the first and the last page, and one at every power
 *         of two. Each transaction adds to both ends and to a page between; in the end the sums say
 *         what was done. Then the manager is killed, and all is looked at again.
 */
#include <time.h>

#include "store_client.h"
#include "pstore_test.h"

enum { EDGES_MAX = 40, ROUNDS = 150, GIB_WANTED = 2304, EXTENT = 16384 };

/* in the first page, whose last word is edge 0 */
struct table { uint64_t count, *edge[EDGES_MAX]; };

static struct wire_opened box;
static struct table *table;
static uint64_t random_state;

static long edges_note(void *from)
{
    *table = *(struct table *)from;
    return 0;
}

static uint64_t some(uint64_t limit)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (random_state >> 33) % limit;
}

static long add(void *middle)
{
    uint64_t n = table->count;
    ++*table->edge[0];
    ++*table->edge[1 + (uint64_t)middle % (n - 2)];
    ++*table->edge[n - 1];
    return 0;
}

static long sums_look(void *wanted)
{
    uint64_t between = 0, n = table->count;
    for (uint64_t i = 1; i < n - 1; i++) between += *table->edge[i];
    return *table->edge[0] == (uint64_t)wanted && *table->edge[n - 1] == (uint64_t)wanted &&
           between == (uint64_t)wanted ? 0 : -EBADMSG;
}

static long rounds(uint64_t seed)
{
    long r = 0;
    random_state = seed;
    for (int i = 0; i < ROUNDS && r == 0; i++) r = client_run(add, (void *)some(1000));
    return r;
}

static int opened(void)
{
    int e = client_reopen("sparse", PS_CREATE | PS_WRITE, &box);
    table = (struct table *)box.base;
    return e;
}

/* Leases it GiB by GiB; how many there were. */
static uint64_t lease_all(struct table *out)
{
    uint64_t *place = NULL, gib = 0;
    out->edge[out->count++] = (uint64_t *)(box.base + KD_PAGE_BYTES) - 1;
    for (; gib < GIB_WANTED; gib++) {
        uint64_t *more = client_lease(box.container, box.pages, NULL);
        if (!more) break;
        place = more;
        if (gib && (gib & (gib - 1)) == 0) out->edge[out->count++] = place;
    }
    if (place) out->edge[out->count++] = place + (box.pages - 1) * 512;
    return gib;
}

int main(int argc, char **argv)
{
    static struct table found;
    if (opened() < 0) {
        printf("Bail out! there is no store\n");
        return 1;
    }
    if (argc > 1) return rounds(7) == 0 ? 0 : 1;
    tap_plan(8);
    uint64_t free_before = client_stats().disk_bytes_free;
    uint64_t gib = lease_all(&found);
    tap_ok(gib == GIB_WANTED, "a container of %llu GiB", (unsigned long long)gib);
    tap_ok(client_stats().disk_bytes_free == free_before,
           "its address space takes nothing of the disk");
    tap_ok(client_run(edges_note, &found) == 0, "%llu edges", (unsigned long long)found.count);
    int other = child_start(argv[0], "other", NULL);
    long r = rounds(3);
    int status = child_wait(other);
    tap_ok(r == 0 && status == 0, "two processes write at both ends and between (%ld, %d)", r,
           status);
    tap_ok(client_run(sums_look, (void *)(2l * ROUNDS)) == 0, "nothing of it is lost");
    uint64_t taken = free_before - client_stats().disk_bytes_free;
    tap_ok(taken > 0 && taken <= found.count * EXTENT,
           "it takes %llu KiB of the disk for %llu pages", (unsigned long long)taken >> 10,
           (unsigned long long)found.count);
    tap_ok(kd_call3(KD_PROCESS_KILL, store_pid(), 9, 0) == 0 && opened() == 0 &&
               client_run(sums_look, (void *)(2l * ROUNDS)) == 0,
           "and so after the manager's death");
    r = client_name(STORE_DELETE, 0, "sparse");
    for (int i = 0; i < 2; i++) client_call(STORE_CHECKPOINT, 0, 0, 0, NULL, 0, NULL, 0);
    tap_ok(r == 0 && client_stats().disk_bytes_free == free_before &&
               kd_call3(KD_CHECK, 0, 0, 0) == 0,
           "deleted, it gives all of that back (%ld)", r);
    return tap_end();
}
