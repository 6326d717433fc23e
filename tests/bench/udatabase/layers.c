/* layers.c - what storage in layers costs (uDatabase, "Storage Management"): creation and queries
 * of a B+-tree on nested heaps, and of the same one that manages its storage itself. */
#include "layers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "katydid/call.h"
#include "pstore.h"
#include "tests/bench/measure.h"
#include "tests/structures/btree.h"

enum { AREA_MIB = 16, UNIT = 8192, BATCH = 500 };
enum { MEMORY_PAGES = 112 };            /* 10 % of the tree's */
struct root {
    struct btree_head head;
    char *area;                         /* units, each for a node */
    uint64_t used;
};

static const struct btree_kind *kind;
static ps_container *box;

static _Noreturn void fail(const char *what, long error)
{
    fprintf(stderr, "udatabase: layers: %s: %s\n", what, ps_strerror((int)error));
    exit(1);
}

static void kind_open(const char *name)
{
    kind = strcmp(name, btree_layered.name) == 0      ? &btree_layered
           : strcmp(name, btree_integrated.name) == 0 ? &btree_integrated
                                                      : NULL;
    box = kind ? ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1)) : NULL;
    if (!box)
        fail(name, kind ? errno : ENOENT);
}

/* Units one after another, so that a node is one request of the disk. */
static void *unit_take(void *arg, size_t bytes, const void *near)
{
    struct root *root = arg;
    (void)near;
    if (bytes > UNIT || root->used + 2 * UNIT > (uint64_t)AREA_MIB << 20) {
        errno = ENOSPC;
        return NULL;
    }
    root->used += UNIT;
    return root->area + root->used - UNIT;
}
static void unit_give(void *arg, void *p) { (void)arg, (void)p; }

static struct ps_memory units(struct root *root)
{
    return (struct ps_memory){.take = unit_take, .give = unit_give, .arg = root};
}

/* ---- building ---- */

/* Records in no order; a record is 4 to 30 bytes behind its key of 10: 27 on average. */
static int insert(struct btree *t, uint64_t from, uint64_t end)
{
    int error = 0;
    for (uint64_t i = from; error == 0 && i < end; i++) {
        char key[16], text[32];
        size_t bytes = record_of(i * 61543 % RECORDS, key, text);
        error = kind->insert(t, (struct btree_bytes){(uint8_t *)key, 10},
                             (struct btree_bytes){(uint8_t *)text, (unsigned)bytes});
    }
    return error;
}

static int begin(void *unused)
{
    struct root *root = ps_root(box);
    char *p = ps_alloc(box, (size_t)AREA_MIB << 20, NULL);
    (void)unused;
    if (!p)
        return -errno;
    root->area = (char *)(((uintptr_t)p + UNIT - 1) / UNIT * UNIT);
    return kind->set_up(&root->head, units(root));
}

static uint64_t next;
static int batch(void *unused)
{
    struct root *root = ps_root(box);
    struct btree t;
    (void)unused;
    kind->open(&t, &root->head, units(root));
    return insert(&t, next, next + BATCH);
}

static int sound(void *unused)
{
    struct root *root = ps_root(box);
    struct btree t;
    (void)unused;
    kind->open(&t, &root->head, units(root));
    const char *why = kind->check(&t);
    if (why)
        printf("# %s: %s\n", kind->name, why);
    return why ? -EUCLEAN : 0;
}

static uint64_t busy(void)
{
    struct kd_system_info s;
    uint64_t now = counter();
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return now - s.idle_cycles;
}

static void row(const char *what, const char *unit, double value)
{
    printf("%s tree: %s\t%s\t%.10g\t-\n", kind->name, what, unit, value);
}

void layers_build(const char *name)
{
    static struct btree_head head;
    struct btree t;
    kind_open(name);
    int error = kind->set_up(&head, ps_volatile());
    kind->open(&t, &head, ps_volatile());
    uint64_t from = busy();
    if (error == 0)
        error = insert(&t, 0, RECORDS);
    row("creation on the heap", "instructions", (double)(busy() - from));
    if (error == 0)
        error = ps_transaction(begin, NULL);
    from = busy();
    for (next = 0; error == 0 && next < RECORDS; next += BATCH)
        error = ps_transaction(batch, NULL);
    if (error == 0)
        error = ps_checkpoint();
    row("creation in a container", "instructions", (double)(busy() - from));
    row("nodes", "nodes", (double)head.count);
    if (error == 0)
        error = ps_transaction(sound, NULL);
    if (error)
        fail("building", error);
}

/* ---- queries ---- */

static uint64_t summed(uint64_t sum, struct btree_bytes bytes)
{
    for (unsigned i = 0; i < bytes.length; i++)
        sum = (sum ^ bytes.at[i]) * 0x100000001b3u;
    return sum;
}

static const struct queries *q;
static uint64_t sum;
static int run(void *unused)
{
    struct root *root = ps_root(box);
    struct random r = {q->queries};
    struct btree t;
    (void)unused;
    kind->open(&t, &root->head, units(root));
    for (unsigned i = 0; i < q->queries; i++) {
        struct btree_bytes key, record;
        char text[16];
        unsigned left = q->records ? q->records : 1;
        key_of(q->records ? random_below(&r, RECORDS - q->records + 1)
                          : (uint64_t)(random_normal(&r) * RECORDS), text);
        kind->find(&t, (struct btree_bytes){(uint8_t *)text, 10});
        for (; left > 0 && kind->next(&t, &key, &record); left--)
            sum = summed(summed(sum, key), record);
        sum += left;
    }
    return 0;
}

void layers_run(const char *name, unsigned number)
{
    struct kd_system_info before, after;
    kind_open(name);
    q = &query_files[number];
    kd_call3(KD_SYSTEM_INFO, (long)&before, 0, 0);
    int error = ps_policy(box, PS_GROUP, UNIT / KD_PAGE_BYTES);
    if (!error)
        error = ps_policy(box, PS_MEMORY, MEMORY_PAGES);
    uint64_t from = busy();
    if (error == 0)
        error = ps_transaction(run, NULL);
    uint64_t spent = busy() - from;
    kd_call3(KD_SYSTEM_INFO, (long)&after, 0, 0);
    if (error)
        fail(q->name, error);
    char what[40];
    snprintf(what, sizeof what, "%s, CPU", q->name);
    row(what, "instructions", (double)spent);
    snprintf(what, sizeof what, "%s, read", q->name);
    row(what, "KiB", (double)(after.block_read_bytes - before.block_read_bytes) / 1024);
    snprintf(what, sizeof what, "%s, sum", q->name);
    row(what, "sum", (double)(sum % 1000000007));
}
