/* data.h - uDatabase's three file structures and its queries (uDatabase, section 5.1). */
#ifndef DATA_H
#define DATA_H

#include <stdio.h>
#include <structures/graph.h>
#include <structures/rtree.h>
#include <structures/tree.h>

enum { RECORDS = 100000, NODES = 64000, WALKS = 40, STEPS = 500 };
/* A unit is what is read at once. Those of boxes begin every 32 KiB: pages that hold nothing are
 * not kept, and a request for eight aligned pages is one for a unit. */
enum { TREE_UNIT = 8192, BOXES_UNIT = 5 * 4096, BOXES_STRIDE = 32768, GRAPH_UNIT = 8192 };

/* Keys are the decimals of numbers from the unit interval. */
struct text { char bytes[1]; };
struct id { uint64_t n; };
/* with its edges and headers 512 bytes: 16 fill a unit */
struct page { uint64_t number, words[51]; };
PS_STRING_TREE_BYTES_OF(records, struct text, TREE_UNIT);
PS_RTREE_OF(boxes, struct id, 2, 16 + 450 * 40);
enum { EDGES = 8, BLOCK_NODES = 16 };
PS_GRAPH_OF(web, struct page, EDGES, GRAPH_UNIT);

enum { STRUCTURES = 5, SUMS_MAX = 8192 };                   /* the tree, boxes, three graphs */
struct data {                                               /* of one structure: its root */
    union {
        struct records_head records;
        struct boxes_head boxes;
        struct web_head web;
    };
    char *area;                                             /* units */
    uint64_t used, area_bytes, offset;                      /* offset: of its copy on the disk */
    uint32_t unit_bytes, stride;
    uint32_t sums[SUMS_MAX];
    struct page *first_of[NODES / BLOCK_NODES];             /* of each block of a graph */
};
extern const struct kind {
    const char *name;
    uint32_t unit_bytes, stride, area_mib, local;
} kinds[];
/* The kind of that name, or -1. */
int kind_named(const char *name);

/* Random numbers, the same in each run. */
struct random { uint64_t state; };
uint64_t random_below(struct random *r, uint64_t below);
double random_unit(struct random *r);                       /* 0 <= x < 1 */
double random_normal(struct random *r);                     /* mean 0.5, variance 0.1, in there */

/* The key of the record that has so many before it. */
void key_of(uint64_t rank, char key[16]);
/* The same with its record: how many bytes of text there are. */
size_t record_of(uint64_t rank, char key[16], char text[32]);

/* A structure is set up, then filled in so many steps; in transactions. 0 or -errno. */
int data_set_up(struct data *d, int kind, const struct ps_memory *memory);
uint64_t data_steps(int kind);
int data_step(struct data *d, int kind, const struct ps_memory *memory, uint64_t i);
struct page *data_page(const struct data *d, uint64_t n);   /* node n of a graph */
struct boxes_box box_in(struct random *r, double area);     /* somewhere, of that area */

/* A query file: what it reads of a structure, wherever that lies. */
struct queries {
    const char *name;                                       /* as in the paper's Table 1 */
    const char *kind;
    unsigned queries, records;                              /* of the tree */
    /* with 10 % and 5 % of memory: mapped and traditional: CPU and elapsed seconds, reads */
    double paper[2][2][3];
};
extern const struct queries query_files[];                  /* up to a name that is NULL */
/* A structure as a reader has it: its head in own memory, and a memory for each access object that
 * is open at once. */
struct source {
    const struct data *data;
    struct ps_memory memory[WALKS];
    void (*leave)(void *way);   /* an access object ends; or NULL */
};
/* A checksum of all that came. */
uint64_t queries_run(const struct queries *q, const struct source *s);

#endif
