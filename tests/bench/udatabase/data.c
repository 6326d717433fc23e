/* data.c - what is put into the three structures. */
#include "data.h"

#include <errno.h>
#include <string.h>

const struct kind kinds[] = {
    {"tree", TREE_UNIT, TREE_UNIT, 16, 0},
    {"boxes", BOXES_UNIT, BOXES_STRIDE, 24, 0},
    {"graph85", GRAPH_UNIT, GRAPH_UNIT, 40, 85},
    {"graph90", GRAPH_UNIT, GRAPH_UNIT, 40, 90},
    {"graph95", GRAPH_UNIT, GRAPH_UNIT, 40, 95},
    {NULL, 0, 0, 0, 0}};

int kind_named(const char *name)
{
    for (int i = 0; kinds[i].name; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return i;
    return -1;
}

uint64_t random_below(struct random *r, uint64_t below)
{
    r->state += 0x9e3779b97f4a7c15u;
    uint64_t x = r->state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint64_t)((unsigned __int128)(x ^ x >> 31) * below >> 64);
}

double random_unit(struct random *r)
{
    return (double)random_below(r, 1ull << 53) / (double)(1ull << 53);
}

/* Twelve numbers of the unit interval have together variance 1. */
double random_normal(struct random *r)
{
    for (;;) {
        double sum = -6;
        for (int i = 0; i < 12; i++)
            sum += random_unit(r);
        double x = 0.5 + sum * 0.31622776601683794;         /* the root of 0.1 */
        if (x >= 0 && x < 1)
            return x;
    }
}

/* Ten decimals: one record in each interval of 1/RECORDS, somewhere in it. */
void key_of(uint64_t rank, char key[16])
{
    struct random r = {rank};
    snprintf(key, 16, "%05lu%05lu", rank, random_below(&r, 100000));
}

/* A record is its key's 10 bytes and 4 to 30 more: 27 on average. */
size_t record_of(uint64_t rank, char key[16], char text[32])
{
    struct random r = {rank + RECORDS};
    key_of(rank, key);
    size_t bytes = 4 + random_below(&r, 27);
    memset(text, 'a' + (int)(rank % 26), bytes);
    return bytes;
}

static int records_fill(struct data *d, const struct ps_memory *memory, uint64_t i)
{
    struct records records = {.head = &d->records, .memory = *memory};
    PS_ACCESS(records_keyed, a, &records, PS_CHANGE);
    char key[16], text[32];
    size_t bytes = record_of(i * 61543 % RECORDS, key, text);   /* each once, in no order */
    return records_insert(&a, key, (const struct text *)(const void *)text, bytes);
}

/* A box of that area, two and a quarter times as wide as high at most, or four times as high. */
struct boxes_box box_in(struct random *r, double area)
{
    double ratio = 0.25 + 2 * random_unit(r), high = 1, x = random_unit(r), y = random_unit(r);
    for (int i = 0; i < 40; i++)                            /* Newton: the root of area / ratio */
        high = (high + area / ratio / high) / 2;
    double wide = high * ratio;
    return (struct boxes_box){{x - wide / 2, y - high / 2}, {x + wide / 2, y + high / 2}};
}

static int boxes_fill(struct data *d, const struct ps_memory *memory, uint64_t i)
{
    struct boxes boxes = {.head = &d->boxes, .memory = *memory};
    PS_ACCESS(boxes_boxes, a, &boxes, PS_CHANGE);
    struct random r = {i + 2 * RECORDS};
    struct boxes_box box = box_in(&r, 2e-4 * random_unit(&r));
    return boxes_insert(&a, &box, &(struct id){i});
}

static struct page *page_of(const struct data *d, uint64_t n)
{
    return (struct page *)(void *)((char *)d->first_of[n / BLOCK_NODES] + n % BLOCK_NODES * 504);
}

struct page *data_page(const struct data *d, uint64_t n) { return page_of(d, n); }

/* Another node: of the same cluster in `local` of 100 cases, else any. */
static uint64_t neighbour(struct random *r, uint64_t n, unsigned local)
{
    if (random_below(r, 100) < local)
        return n / PS_CLUSTER_NODES * PS_CLUSTER_NODES + random_below(r, PS_CLUSTER_NODES);
    return random_below(r, NODES);
}

/* All nodes, cluster by cluster; then the edges of each. */
static int web_fill(struct data *d, const struct ps_memory *memory, uint64_t i, unsigned local)
{
    struct web web = {.head = &d->web, .memory = *memory};
    PS_ACCESS(web_nodes, a, &web, PS_CHANGE);
    uint64_t n = i % NODES;
    struct random r = {i};
    if (i < NODES) {
        struct page page = {.number = n}, *p;
        for (uint64_t w = 0; w < 51; w++)
            page.words[w] = n * 51 + w;
        p = web_add(&a, n % PS_CLUSTER_NODES ? page_of(d, n - 1) : NULL, &page);
        if (p && n % BLOCK_NODES == 0)
            d->first_of[n / BLOCK_NODES] = p;
        return p ? 0 : -errno;
    }
    int error = 0;
    for (int e = 0; !error && e < EDGES; e++)
        error = web_link(&a, page_of(d, n), page_of(d, neighbour(&r, n, local)));
    return error;
}

int data_set_up(struct data *d, int kind, const struct ps_memory *memory)
{
    struct records records = {.head = &d->records, .memory = *memory, .name = "records"};
    struct boxes boxes = {.head = &d->boxes, .memory = *memory, .name = "boxes"};
    struct web web = {.head = &d->web, .memory = *memory, .name = "web"};
    return kind == 0   ? records_set_up(&records)
           : kind == 1 ? boxes_set_up(&boxes)
                       : web_set_up(&web);
}

uint64_t data_steps(int kind) { return kind < 2 ? RECORDS : 2 * NODES; }

int data_step(struct data *d, int kind, const struct ps_memory *memory, uint64_t i)
{
    return kind == 0   ? records_fill(d, memory, i)
           : kind == 1 ? boxes_fill(d, memory, i)
                       : web_fill(d, memory, i, kinds[kind].local);
}
