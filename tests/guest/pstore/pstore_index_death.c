/*
 * pstore_index_death.c - the store manager dies while commits change an index.
 *
 * Aim     at whichever step it dies, index and data agree afterwards: all of a transaction is in
 *         both or nothing; what was acknowledged is there; who read the index when the manager
 *         died goes on with the next one.
 * Method  the option store.die (pstore_index_death.opts) names the steps. Each transaction counts
 *         in an object, keeps the counts in an index under the last 300 keys of a string, and 20
 *         numbers in another. Two threads: one writes, one looks. At the last step, CM7, the writer
 *         may have been answered, and find the next manager without having heard of the death.
 */
#include <errno.h>
#include <index.h>
#include <pstore.h>
#include <pthread.h>
#include <string.h>

#include "pstore_test.h"

enum { COMMITS = 900, NAMES = 300, NUMBERS = 20, DEATHS = 6, NUMBER_0 = 1000 };
struct root { uint64_t count; };
static ps_container *box;
static ps_index *names, *numbers;
static _Atomic int over;
static _Atomic long looks, wrong;

static const char *name_of(uint64_t count, char *name)
{
    sprintf(name, "the name of %03u", (unsigned)(count % NAMES));
    return name;
}

static int count_up(void *to)
{
    struct root *root = ps_root(box);
    char name[32];
    if (!root) return -errno;
    uint64_t count = root->count = *(uint64_t *)to, key = NUMBER_0 + count;
    int e = ps_index_put(names, name_of(count, name), count);
    if (e == 0) e = ps_index_insert(numbers, &key, count);
    key -= NUMBERS;
    if (e == 0 && count > NUMBERS) e = ps_index_remove(numbers, &key);
    return e;
}

/* Do index and data agree? *count: what they say. */
static int agree(void *count)
{
    const struct root *root = ps_root(box);
    uint64_t n = root ? root->count : 0, found = 0, value = 0;
    uint64_t expected = n > NUMBERS ? n - NUMBERS : 0;
    char name[32];
    *(uint64_t *)count = n;
    if (n && (ps_index_find(names, name_of(n, name), &value) || value != n)) return 1;
    PS_ACCESS(ps_index_range, r, numbers, NULL, NULL, PS_UP);
    for (const uint64_t *p; (p = ps_index_next(&r)); found++)
        if (*p != ++expected) return 2;
    return errno ? -errno : found == (n < NUMBERS ? n : NUMBERS) ? 0 : 3;
}

static void *look_on(void *unused)
{
    uint64_t count;
    (void)unused;
    while (!over) {
        int r = ps_transaction(agree, &count);
        looks += r == 0;
        wrong += r > 0;
    }
    return NULL;
}

int main(void)
{
    int deaths = 0, lost = 0, uncertain = 0;
    uint64_t done = 0, count = 0;
    pthread_t looker;
    tap_plan(5);
    box = ps_open("index death", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    names = ps_index_open("index death names", PS_STRINGS, PS_CREATE | PS_WRITE);
    numbers = ps_index_open("index death numbers", PS_NUMBERS, PS_CREATE | PS_WRITE);
    tap_ok(box && names && numbers && ps_transaction(agree, &count) == 0, "opened");
    pthread_create(&looker, NULL, look_on, NULL);
    for (uint64_t n = 1; n <= COMMITS; n = done + 1) {
        int r = ps_transaction(count_up, &n);
        if (r == 0) {
            done = n;
            continue;
        }
        deaths++;
        if (r != -EOWNERDEAD) printf("# count %lu: %s\n", (long)n, ps_strerror(r));
        while ((r = ps_transaction(agree, &count)) < 0)
            pause_ms(2);
        wrong += r != 0;
        lost += count < done || count > n;
        uncertain += count == n;
        done = count;
    }
    over = 1;
    pthread_join(looker, NULL);
    tap_ok(deaths == DEATHS || deaths == DEATHS - 1, "%d deaths of the manager were heard", deaths);
    tap_ok(lost == 0, "nothing acknowledged was lost (%d commits outlived their manager)",
           uncertain);
    tap_ok(wrong == 0 && looks > 0, "index and data agree in %ld looks", looks);
    tap_ok(ps_index_check(names, NULL, NULL) == 0 && ps_index_check(numbers, NULL, NULL) == 0,
           "both trees are sound");
    return tap_end();
}
