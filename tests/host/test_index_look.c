/*
 * test_index_look.c - a program's side of an index whose pages a disk that lies has damaged.
 *
 * Aim     whatever the pages say, a look-up, a step in either direction and a check end, with what
 *         they found or -EUCLEAN, and read nothing but the index's own pages and their copies; who
 *         goes from key to key comes to an end.
 * Method  libpstore/index_look.c itself, in a snapshot, as in test_index.c; the copies lie at the
 *         end of memory that nobody may touch.
 *         `test_index_look SEED N`: N damaged trees of each kind (1000).
 */
#include "libpstore/index_look.c"

#include <unistd.h>

#include "index_pages.h"

enum { TREES = 1000, FEW = 60, LOOKS = 20, STEPS = 200, LIMIT_S = 300 };

/* ---- the library around it ---- */

static struct ps_tx snapshot = {.active = 1, .options.isolation = PS_SNAPSHOT};
_Thread_local struct ps_tx *tx_current = &snapshot;
__thread const char *ps_place;
int container_is_open(const ps_container *c) { return c != NULL; }
int (ps_transaction_opt)(int (*fn)(void *), void *arg, const struct ps_options *opt)
{
    return (void)opt, fn(arg);
}

/* ---- a sound tree, then a damaged one ---- */

static struct ps_container container = {.root_bytes = 8, .segment_count = 1};
static struct looks *all;
static struct look *l;

static void *spare[PAGES];
static unsigned spare_count;
static void *node_take(void *unused, size_t bytes, const void *near)
{
    (void)unused, (void)bytes, (void)near;
    return spare_count ? spare[--spare_count] : page((unsigned)head()->pages++);
}
static void node_give(void *unused, void *node) { (void)unused, spare[spare_count++] = node; }

static int sound_make(int strings, unsigned keys)
{
    struct ps_instance i = {.head = &head()->tree.head,
                            .memory = {.take = node_take, .give = node_give}};
    struct ps_tree_access a;
    struct name name;
    memset(pages, 0, PAGES * PAGE);
    head()->pages = INDEX_FIRST;
    spare_count = 0;
    int r = ps_tree_set_up(&i, &index_types[strings]);
    ps_access_open(&a.base, &i, &index_types[strings], PS_CHANGE);
    for (uint64_t n = 0; r == 0 && n < keys; n++) {
        name_make(&name, strings, dice(keys));
        r = ps_tree_insert(&a, name.text, &n, 1);
    }
    head()->stamp = ((struct index_end *)(void *)page(INDEX_END))->stamp = 1;
    container.base = (uintptr_t)pages;
    container.segment[0].base = container.base;
    container.segment[0].end = container.base + 2 * PAGES * PAGE; /* the rest: locks */
    strcpy(container.root_type, index_layouts[strings]);
    return r;
}

/* What is in the copies before, a program may have left there. */
static void look_forget(int strings)
{
    l = &all->look[dice(2) ? 0 : INDEXES - 1];
    memset(l, dice(256), sizeof *l);
    l->container = &container;
    l->generation = 0;
    l->stamp = 0;
    l->kind = strings;
}

static int result_ok(int r) { return r == 0 || r == 1 || r == -EUCLEAN || r == -EPROTOTYPE; }

/* Ranges of all keys, in both directions. */
static int steps_end(int up, unsigned keys)
{
    struct key at;
    uint64_t value;
    int r = committed_near(l, (struct bytes){0}, up ? FIRST : LAST, &at, &value);
    for (unsigned n = 0; r == 1 && n <= 2 * PAGES * keys; n++) {
        struct key from = at;
        r = committed_near(l, key_bytes(&from), up ? ABOVE : BELOW, &at, &value);
    }
    return r != 1;
}

static int looks_end_well(int strings, unsigned keys, unsigned *spoilt)
{
    struct key found;
    struct name name;
    uint64_t value;
    int good = 1;
    for (int i = 0; good && i < LOOKS; i++) {
        unsigned length = name_make(&name, strings, dice(keys));
        struct bytes key = {(const uint8_t *)name.text, length};
        int r = committed_find(l, name.text, &value);
        int near = committed_near(l, key, (enum where)dice(6), &found, &value);
        good = result_ok(r) && result_ok(near);
        *spoilt += r < 0 || near < 0;
    }
    return good && steps_end(1, keys) && steps_end(0, keys);
}

static int damaged(int strings, unsigned keys, unsigned trees)
{
    static uint8_t sound_pages[PAGES * PAGE];
    unsigned spoilt = 0, checks = 0, good = sound_make(strings, keys) == 0;
    printf("# a sound tree: %lu pages, height %u\n", (unsigned long)head()->pages,
           head()->tree.height);
    memcpy(sound_pages, pages, sizeof sound_pages);
    look_forget(strings);
    good &= looks_end_well(strings, keys, &spoilt) && spoilt == 0;
    good &= ps_index_check(&container, NULL, NULL) == 0;
    for (unsigned i = 0; good && i < trees; i++) {
        memcpy(pages, sound_pages, sizeof sound_pages);
        for (unsigned n = 1 + dice(4); n > 0; n--)
            page_damage();
        head()->stamp = dice(100) ? 1 : 2;
        alarm(LIMIT_S);
        look_forget(strings);
        good = looks_end_well(strings, keys, &spoilt);
        int r = ps_index_check(&container, NULL, NULL);
        good &= result_ok(r);
        checks += r < 0;
    }
    printf("# %u of %u pairs of looks found damage, %u of %u checks\n", spoilt, trees * LOOKS,
           checks, trees);
    return good && spoilt && checks;
}

static void tell(int number, int ok, const char *what)
{
    printf("%sok %d - damaged pages of %s\n", ok ? "" : "not ", number, what);
}

/* Nothing may be read before or behind what the library has of them. */
static int copies_make(void)
{
    size_t bytes = (sizeof *all + PAGE - 1) & ~(size_t)(PAGE - 1);
    char *at = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + PAGE, bytes, PROT_READ | PROT_WRITE) != 0)
        return -1;
    all = (struct looks *)(void *)(at + PAGE);
    return 0;
}

int main(int argc, char **argv)
{
    dice_state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    unsigned trees = argc > 2 ? (unsigned)atoi(argv[2]) : TREES;
    printf("1..4\n# again: test_index_look %lu %u\n", (unsigned long)dice_state, trees);
    if (region_make() < 0 || copies_make() < 0)
        return 1;
    tell(1, damaged(0, KEYS, trees / 4), "many numbers");
    tell(2, damaged(1, KEYS, trees / 4), "many strings");
    tell(3, damaged(0, FEW, trees), "a few numbers");
    tell(4, damaged(1, FEW, trees), "a few strings");
    return 0;
}
