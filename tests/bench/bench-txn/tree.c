/*
 * tree.c - the tree of Cricket's Table 4: fan-out 11, depth 4 below the root, 12 nodes to a page.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "bench.h"

enum { FAN_OUT = 11, DEPTH = 4, NODE_BYTES = 336, NODES_A_PAGE = 12, NODES = 16105,
       TREE_PAGES = 1343 };
struct node { struct node *child[FAN_OUT]; uint64_t value; char rest[NODE_BYTES - 96]; };
_Static_assert(sizeof(struct node) == NODE_BYTES, "12 to a page");

struct root { struct node *tree; };
static ps_container *c;
static char *place;
static unsigned placed;

/* Depth first, 12 to a page. */
static struct node *build(int depth)
{
    struct node *n = (struct node *)(place + (size_t)(placed / NODES_A_PAGE) * KD_PAGE_BYTES +
                                     placed % NODES_A_PAGE * NODE_BYTES);
    n->value = placed++;
    for (int i = 0; i < FAN_OUT && depth; i++)
        n->child[i] = build(depth - 1);
    return n;
}

static uint64_t search(const struct node *n)
{
    uint64_t sum = n->value;
    for (int i = 0; i < FAN_OUT && n->child[i]; i++)
        sum += search(n->child[i]);
    return sum;
}

static int tree_make(void *unused)
{
    (void)unused;
    struct root *r = ps_root(c);
    char *pages = ps_alloc(c, (size_t)(TREE_PAGES + 1) * KD_PAGE_BYTES, NULL);
    if (!pages)
        return -errno;
    place = (char *)(((uintptr_t)pages + KD_PAGE_BYTES - 1) & ~(uintptr_t)(KD_PAGE_BYTES - 1));
    placed = 0;
    r->tree = build(DEPTH);
    return 0;
}

static uint64_t passes[3];
static volatile uint64_t sink;
static int tree_search(void *unused)
{
    (void)unused;
    const struct node *tree = ((struct root *)ps_root(c))->tree;
    for (int i = 0; i < 3; i++) {
        uint64_t t = counter();
        sink = search(tree);
        passes[i] = counter() - t;
    }
    return 0;
}

static uint64_t touched;
static int pages_touch(void *unused)
{
    (void)unused;
    touched = touch((char *)((struct root *)ps_root(c))->tree, TREE_PAGES, 1, 0);
    return 0;
}

static void *run(void *body)
{
    int e = ps_transaction((int (*)(void *))body, NULL);
    if (e)
        fail("searching", e);
    return NULL;
}

/* In a view of its own: no transaction before has left it a right. */
static void run_anew(int (*body)(void *))
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, (void *)body);
    pthread_join(thread, NULL);
}

static uint64_t volatile_pass(void)
{
    place = mmap(NULL, (size_t)TREE_PAGES * KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    placed = 0;
    struct node *tree = build(DEPTH);
    uint64_t plain = ~0ull;
    for (int i = 0; i < 5; i++) {
        uint64_t t = counter();
        sink = search(tree);
        plain = least(plain, counter() - t);
    }
    return plain;
}

void group_tree(void)
{
    double plain = (double)volatile_pass();
    ps_delete("bench-tree");
    c = ps_open("bench-tree", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c ? ps_transaction(tree_make, NULL) : -errno;
    if (e || placed != NODES)
        fail("the tree", e);
    ps_policy(c, PS_GROUP, 0);
    run_anew(tree_search);
    row("tree search, first pass over 1,343 resident pages (Cricket 7.2 in time; Linux mmap 4.5, "
        "SIGSEGV locks 103, LMDB 92)", "times volatile", (double)passes[0] / plain, "1.4");
    row("tree search, second pass in the transaction", "times volatile", (double)passes[1] / plain,
        "1.02");
    row("tree search, two passes together", "times volatile",
        (double)(passes[0] + passes[1]) / plain / 2, "-");
    double first = (double)passes[0];
    run_anew(pages_touch);
    row("tree search, first pass, of plain memory plus the first touch of each page", "times",
        first / (plain + (double)touched), "-");
    (void)run((void *)tree_search);
    (void)run((void *)tree_search);
    row("tree search, first pass of the next transaction", "times volatile",
        (double)passes[0] / plain, "1.02");
    ps_close(c);
    ps_delete("bench-tree");
}
