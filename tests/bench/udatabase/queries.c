/* queries.c - uDatabase's query files, run on a structure that is mapped or buffered alike. */
#include "data.h"

#include <string.h>

/* The paper's Table 1: CPU and elapsed seconds, reads. */
const struct queries query_files[] = {
    {"1x10000", "tree", 1, 10000,
     {{{35.7, 19.7, 61}, {32.2, 32.9, 53}}, {{35.5, 19.5, 61}, {35.3, 35.5, 117}}}},
    {"10x1000", "tree", 10, 1000,
     {{{35.7, 19.5, 56}, {32.5, 32.6, 58}}, {{35.2, 19.6, 66}, {34.2, 33.5, 131}}}},
    {"100x100", "tree", 100, 100,
     {{{37.5, 22.4, 147}, {35.4, 35.7, 150}}, {{37, 22.1, 155}, {37.4, 36.6, 216}}}},
    {"10000x1", "tree", 10000, 1,
     {{{98.1, 217.6, 8789}, {240.5, 223.6, 8746}}, {{127.8, 255.6, 9415}, {260.7, 224.1, 9723}}}},
    {"normal", "tree", 10000, 0,
     {{{91.8, 181, 6777}, {202.3, 183.6, 6638}}, {{126.6, 235.8, 8250}, {253.8, 217.6, 9313}}}},
    {"windows", "boxes", 0, 0,
     {{{154, 174.5, 1414}, {330.4, 334.1, 1462}}, {{181.3, 227.8, 2913}, {367.1, 374.5, 3396}}}},
    {"points", "boxes", 1, 0,
     {{{109.4, 124.1, 934}, {230.5, 234.4, 896}}, {{136.8, 184.5, 2647}, {279.5, 289.6, 3491}}}},
    {"85% local", "graph85", 0, 0,
     {{{318.1, 476.1, 15294}, {526.7, 458.8, 15004}},
      {{383.3, 565.8, 17772}, {563.4, 495.8, 16550}}}},
    {"90% local", "graph90", 0, 0,
     {{{271.6, 375.5, 11278}, {449, 370.7, 11368}},
      {{330.3, 462.1, 13602}, {484, 403.9, 12781}}}},
    {"95% local", "graph95", 0, 0,
     {{{207, 243.8, 6584}, {337.7, 254.7, 6539}}, {{264.9, 316.6, 8338}, {361.9, 276.1, 7400}}}},
    {NULL, NULL, 0, 0, {{{0}}}}};

static uint64_t summed(uint64_t sum, const void *bytes, size_t count)
{
    for (const uint8_t *p = bytes; count > 0; count--, p++)
        sum = (sum ^ *p) * 0x100000001b3u;
    return sum;
}

static void end(const struct source *s, int i)
{
    if (s->leave)
        s->leave(s->memory[i].arg);
}

/* Records in order from a key on. */
static uint64_t range_read(const struct source *s, uint64_t from, unsigned count)
{
    struct records records = {.head = (struct records_head *)(uintptr_t)&s->data->records,
                              .memory = s->memory[0]};
    uint64_t sum = 0;
    char key[16];
    key_of(from, key);
    PS_ACCESS(records_range, r, &records, key, NULL, PS_UP, PS_LOOK);
    for (const struct text *text; count > 0 && (text = records_next(&r)); count--)
        sum = summed(sum, text, records_bytes(&r));
    end(s, 0);
    return sum + count;
}

static uint64_t exact_match(const struct source *s, uint64_t rank)
{
    struct records records = {.head = (struct records_head *)(uintptr_t)&s->data->records,
                              .memory = s->memory[0]};
    char key[16];
    key_of(rank, key);
    PS_ACCESS(records_keyed, a, &records, PS_LOOK);
    const struct text *text = records_find(&a, key);
    uint64_t sum = text ? summed(0, text, records_found(&a)) : 1;
    end(s, 0);
    return sum;
}

static uint64_t tree_queries(const struct queries *q, const struct source *s)
{
    struct random r = {q->queries};
    uint64_t sum = 0;
    for (unsigned i = 0; i < q->queries; i++) {
        sum *= 31;
        if (q->records)
            sum += range_read(s, random_below(&r, RECORDS - q->records + 1), q->records);
        else
            sum += exact_match(s, (uint64_t)(random_normal(&r) * RECORDS));
    }
    return sum;
}

static uint64_t window_read(const struct source *s, const struct boxes_box *box, enum ps_query how)
{
    struct boxes boxes = {.head = (struct boxes_head *)(uintptr_t)&s->data->boxes,
                          .memory = s->memory[0]};
    uint64_t sum = 0;
    PS_ACCESS(boxes_range, range, &boxes, box, how, PS_LOOK);
    for (const struct id *id; (id = boxes_next(&range));)
        sum += id->n * 0x9e3779b97f4a7c15u;
    end(s, 0);
    return sum;
}

/* 1,000 points; or 400 windows of each kind, a hundred of each of four areas. */
static uint64_t box_queries(const struct queries *q, const struct source *s)
{
    static const double areas[] = {1e-2, 1e-3, 1e-4, 1e-5};
    struct random r = {q->queries};
    uint64_t sum = 0;
    for (unsigned i = 0; i < (q->queries ? 1000 : 1200); i++) {
        struct boxes_box box = box_in(&r, q->queries ? 0 : areas[i / 3 % 4]);
        sum += window_read(s, &box, q->queries ? PS_ENCLOSE : (enum ps_query)(i % 3));
    }
    return sum;
}

/* The walks go on by turns, a step each. */
static uint64_t walks(const struct source *s)
{
    static struct web webs[WALKS];
    static struct web_walk walk[WALKS];
    struct random r = {WALKS};
    uint64_t sum = 0;
    for (int i = 0; i < WALKS; i++) {
        webs[i] = (struct web){.head = (struct web_head *)(uintptr_t)&s->data->web,
                               .memory = s->memory[i]};
        walk[i] = web_walk_open(&webs[i], data_page(s->data, random_below(&r, NODES)), PS_LOOK);
    }
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < WALKS; i++) {
            const struct page *page = web_follow(&walk[i], random_below(&r, EDGES));
            for (int w = 0; page && w < 51; w++)
                sum = sum * 31 + page->words[w];
        }
    for (int i = 0; i < WALKS; i++) {
        web_walk_close(&walk[i]);
        end(s, i);
    }
    return sum;
}

uint64_t queries_run(const struct queries *q, const struct source *s)
{
    return strcmp(q->kind, "tree") == 0    ? tree_queries(q, s)
           : strcmp(q->kind, "boxes") == 0 ? box_queries(q, s)
                                           : walks(s);
}
