/* subject_graph.c - a graph beside a list of its nodes and a list of its edges. */
#include <structures/graph.h>

#include "subject.h"

enum { NODES = 900, EDGES = 6000 };
struct place { uint32_t number, twice; };
PS_GRAPH_OF(towns, struct place, 3, 512);
static struct kept {
    struct towns_head towns;
    struct place *node[NODES];          /* NULL: not there */
    struct { uint16_t from, to; } edge[EDGES];
    uint32_t edges, out[NODES];
} *kept;
static struct towns towns = {.name = "towns"};

static void place(void *at, struct ps_memory memory)
{
    kept = at;
    towns.head = &kept->towns;
    towns.memory = memory;
}

static int tear_down(void) { return towns_tear_down(&towns); }

static int is_node(const struct place *p, uint32_t n)
{
    return p && p->number == n && p->twice == 2 * n;
}

static int add(struct towns_nodes *a, uint32_t n)
{
    const struct place *near = draw(4) ? kept->node[draw(NODES)] : NULL;
    struct place *p = towns_add(a, near, &(struct place){n, 2 * n});
    if (!p)
        return -errno;
    kept->node[n] = p;
    return 0;
}

/* With the first node, for which a block and a page of the directory are taken. */
static int set_up(void)
{
    int error = towns_set_up(&towns);
    if (error)
        return error;
    PS_ACCESS(towns_nodes, a, &towns, PS_CHANGE);
    error = add(&a, 0);
    if (error)
        SAME(tear_down() == 0);
    return error;
}

/* Some nodes get many edges. */
static int link(struct towns_nodes *a)
{
    uint32_t from = draw(3) ? draw(NODES) : draw(20), to = draw(3) ? draw(NODES) : from;
    if (kept->edges == EDGES || !kept->node[from] || !kept->node[to])
        return 0;
    int error = towns_link(a, kept->node[from], kept->node[to]);
    if (error)
        return error;
    kept->edge[kept->edges].from = (uint16_t)from;
    kept->edge[kept->edges++].to = (uint16_t)to;
    kept->out[from]++;
    return 0;
}

static void edge_forget(uint32_t i)
{
    kept->out[kept->edge[i].from]--;
    kept->edge[i] = kept->edge[--kept->edges];
}

static void unlink(struct towns_nodes *a)
{
    uint32_t from = draw(NODES), to = draw(NODES), i = draw(kept->edges + 1);
    if (i < kept->edges)
        from = kept->edge[i].from, to = kept->edge[i].to;
    for (i = 0; i < kept->edges && (kept->edge[i].from != from || kept->edge[i].to != to);)
        i++;
    if (!kept->node[from] || !kept->node[to])
        return;
    SAME(towns_unlink(a, kept->node[from], kept->node[to]) == (i < kept->edges ? 0 : -ENOENT));
    if (i < kept->edges)
        edge_forget(i);
}

/* A node goes; if others lead to it, these edges first. */
static void take_away(struct towns_nodes *a, uint32_t n)
{
    uint32_t i = 0;
    for (; i < kept->edges; i++)
        if (kept->edge[i].to == n && kept->edge[i].from != n)
            break;
    if (i < kept->edges) {
        SAME(towns_remove(a, kept->node[n]) == -EBUSY);
        for (i = 0; i < kept->edges;) {
            if (kept->edge[i].to != n || kept->edge[i].from == n) {
                i++;
                continue;
            }
            SAME(towns_unlink(a, kept->node[kept->edge[i].from], kept->node[n]) == 0);
            edge_forget(i);
        }
    }
    SAME(towns_remove(a, kept->node[n]) == 0);
    kept->node[n] = NULL;
    for (i = 0; i < kept->edges;)
        if (kept->edge[i].from == n)
            edge_forget(i);
        else
            i++;
}

static void walk(void)
{
    const struct place *start = kept->node[draw(NODES)];
    if (!start)
        return;
    PS_ACCESS(towns_walk, w, &towns, start, PS_LOOK);
    for (unsigned steps = 10; steps > 0; steps--) {
        uint32_t n = towns_here(&w)->number, degree = kept->out[n];
        SAME(is_node(towns_here(&w), n) && towns_degree(&w) == degree);
        SAME(!towns_follow(&w, degree) && errno == ENOENT);
        if (degree == 0)
            return;
        uint32_t number = draw(degree), there = 0;
        const struct place *to = towns_edge(&w, number);
        for (uint32_t i = 0; to && i < kept->edges; i++)
            there |= kept->edge[i].from == n && kept->node[kept->edge[i].to] == to;
        SAME(there && towns_follow(&w, number) == to);
    }
}

static int operation(int growing)
{
    PS_ACCESS(towns_nodes, a, &towns, PS_CHANGE);
    uint32_t n = draw(NODES), what = draw(10);
    if (what < 2)
        walk();
    if (what < (growing ? 3u : 1u) && !kept->node[n])
        return add(&a, n);
    if (what < (growing ? 8u : 4u))
        return link(&a);
    if (what == 9 && (!growing || draw(8) == 0) && kept->node[n])
        take_away(&a, n);
    else
        unlink(&a);
    return 0;
}

static void compare(void)
{
    static uint32_t out[NODES];
    PS_ACCESS(towns_nodes, a, &towns, PS_LOOK);
    PS_ACCESS(towns_range, r, &towns, PS_LOOK);
    struct ps_graph_stats stats;
    uint64_t count = 0, came = 0;
    SAME(ps_graph_check(&a.access, &stats, NULL) == 0);
    memset(out, 0, sizeof out);
    for (uint32_t i = 0; i < kept->edges; i++)
        out[kept->edge[i].from]++;
    for (uint32_t n = 0; n < NODES; n++) {
        count += kept->node[n] != NULL;
        SAME(!kept->node[n] || is_node(kept->node[n], n));
        SAME(out[n] == kept->out[n]);
    }
    for (const struct place *p; (p = towns_next(&r)); came++)
        SAME(p->number < NODES && kept->node[p->number] == p);
    SAME(errno == 0 && came == count && stats.nodes == count && stats.edges == kept->edges);
    SAME(stats.clusters <= NODES / 8 && stats.blocks <= 13 * stats.clusters);
}

const struct subject subject_graph = {"graph", sizeof(struct kept), place,  set_up,
                                      tear_down, operation,        compare,
                                      offsetof(struct kept, node)};
