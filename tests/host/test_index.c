/*
 * test_index.c - the store manager's side of an index whose pages a disk that lies has damaged.
 *
 * Aim     whatever the pages say, a change of the index ends, as it should or with an error, and
 *         touches nothing but the index's own pages; an abort forgets what was found sound in pages
 *         that are then as they were.
 * Method  user/store/index.c itself, its pages in the host's memory between pages that nobody may
 *         touch, all compiled with the address sanitizer. A sound tree is damaged in one to four
 *         places of some kinds, then changed at random; some of the changes are undone.
 *         `test_index SEED N`: N damaged trees of each kind (500).
 */
#include "user/store/index.c"

#include <errno.h>
#include <unistd.h>

#include "index_pages.h"

enum { TREES = 500, CHANGES = 40, FEW = 60, LIMIT_S = 300 };
static unsigned key_most;

/* ---- the manager around it ---- */

struct server server;

long kd_system(long number, long a, long b, long c, long d)
{
    return (void)number, (void)a, (void)b, (void)c, (void)d, -ENOSYS;
}
uint64_t store_log_free(const struct store *store) { return (void)store, 0; }
struct container *container_by_id(uint64_t id) { return (void)id, NULL; }

/* ---- changes ---- */

static struct container container;
static uint8_t sound_pages[PAGES * PAGE], before[PAGES * PAGE];

static void index_begin(int strings)
{
    free(container.index);
    struct index *x = calloc(1, sizeof(*x) + PAGES / 8);
    x->type = &index_types[strings];
    x->head = head();
    x->end = page_at(x, INDEX_END);
    x->pages_max = PAGES;
    container.index = x;
}

static int changed(int strings, unsigned number, bool set)
{
    struct name name;
    struct index_op op = {.container = &container, .set = set, .value = number,
                          .length = name_make(&name, strings, number),
                          .key = (const uint8_t *)name.text};
    int r = change_make(&op);
    touched_forget();
    return r;
}

/* Some pages of it are free. */
static int sound_make(int strings)
{
    memset(pages, 0, PAGES * PAGE);
    index_begin(strings);
    int r = 0;
    for (unsigned i = 0; r == 0 && i < key_most; i++) r = changed(strings, dice(key_most), true);
    for (unsigned i = 0; r == 0 && i < key_most / 3; i++) r = changed(strings, i, false);
    for (unsigned i = 0; r == 0 && i < key_most; i++) r = changed(strings, dice(key_most), dice(2));
    memcpy(sound_pages, pages, sizeof(sound_pages));
    return r;
}

static int damaged_once(int strings, unsigned *refused)
{
    memcpy(pages, sound_pages, sizeof(sound_pages));
    index_begin(strings);
    for (unsigned n = 1 + dice(4); n > 0; n--) page_damage();
    /* neighbours, as splits and joins need them */
    unsigned near = dice(key_most), set = dice(4);
    for (int i = 0; i < CHANGES; i++) {
        bool undone = dice(8) == 0;
        unsigned number = dice(4) ? (near + dice(60)) % key_most : dice(key_most);
        memcpy(before, pages, sizeof(before));
        int r = changed(strings, number, dice(4) < set);
        if (r > 0 || r < -4095) return r;
        *refused += r == -EUCLEAN;
        if (undone || r < 0) memcpy(pages, before, sizeof(before));
    }
    return 0;
}

static bool damaged(int strings, unsigned of, unsigned trees)
{
    unsigned refused = 0;
    key_most = of;
    int r = sound_make(strings);
    printf("# a sound tree: %d, %lu pages, height %u\n", r, (unsigned long)head()->pages,
           head()->tree.height);
    for (unsigned i = 0; r == 0 && i < trees; i++) {
        alarm(LIMIT_S);                 /* a change that does not end */
        r = damaged_once(strings, &refused);
    }
    printf("# %u changes of %u were refused\n", refused, trees * CHANGES);
    return r == 0 && refused > 0;
}

static void tell(int number, bool ok, const char *what)
{
    printf("%sok %d - damaged pages of %s\n", ok ? "" : "not ", number, what);
}

int main(int argc, char **argv)
{
    dice_state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    unsigned trees = argc > 2 ? (unsigned)atoi(argv[2]) : TREES;
    printf("1..4\n# again: test_index %lu %u\n", (unsigned long)dice_state, trees);
    if (region_make() < 0) return 1;
    tell(1, damaged(0, KEYS, trees), "many numbers");
    tell(2, damaged(1, KEYS, trees), "many strings");
    tell(3, damaged(0, FEW, trees), "a few numbers");
    tell(4, damaged(1, FEW, trees), "a few strings");
    return 0;
}
