/*
 * load.h - what the processes of crashload keep in the store, and what a transaction of theirs
 * does.
 *
 * Four workers share the container "crash". What transaction NUMBER of a worker does follows from
 * the seed alone: a transfer between two accounts, or a node that is put in or taken out. The fifth
 * process makes, fills, grows, renames and deletes containers of its own (volume.c), the sixth
 * changes more in one transaction than the store takes at once (large.c). Each has a counter, so
 * the counters say what all else must be:
 *
 *   CL1  an account holds START and what the counted transfers brought; the sum never changes
 *   CL2  the nodes of a worker are those that its counted transactions left, with their bytes
 *   CL3  the list is a ring with equal links both ways, and holds all these nodes and no other
 *   CL4  the last transfer that an account remembers is one of the counted, and was about it
 *   CL5  the tree is sorted by key, a heap by priority, and holds all these nodes and no other
 *   CL6  the volumes are those that the counted steps of the fifth process left
 *   CL7  the pages hold these objects and no other, and none over another
 *   CL8  every page of the large object is as the last counted step of the sixth process left it
 *
 * The structs' layout is known to tests/crash/crashload.py, which checks the same from outside,
 * from bare pages, CL7 only there.
 */
#ifndef CRASHLOAD_LOAD_H
#define CRASHLOAD_LOAD_H

#include <errno.h>
#include <pstore.h>
#include <stdint.h>

enum { WORKERS = 4, PROCESSES = 6, VOLUMES = WORKERS, LARGE, ACCOUNTS = 16, SLOTS = 128,
       START = 1000 };
enum { NODES_MAX = WORKERS * SLOTS };

struct node {
    struct node *next, *prev;            /* the ring of all nodes */
    struct node *left, *right;           /* the tree of all nodes */
    uint32_t process, number, bytes, slot;
    unsigned char text[];
};
struct account { int64_t amount; uint32_t process, number; char room[992]; }; /* four in a page */
struct process { uint64_t counter; struct node *node[SLOTS]; char room[2800]; };
struct load {
    uint64_t seed, ready;
    struct account *account[ACCOUNTS];
    struct process *process[WORKERS];
    struct node *tree;
    struct { struct node *next, *prev; } ring; /* begins as a node does */
};

struct step {                            /* transaction NUMBER of a worker */
    unsigned process, number;
    int transfer, abort_first;
    unsigned from, to, slot, bytes;
    int64_t amount;
};

/* A store that is declared (PS_ENCODE_RANGES); the others take no notice. */
#define SET(place, value) (ps_touch(&(place), sizeof(place)), (place) = (value))

extern ps_container *container;          /* "crash" */
extern uint64_t seed;

/* ---- load.c ---- */
struct step step_of(unsigned process, unsigned number);
unsigned char text_of(unsigned process, unsigned number, unsigned at);
/* These are for ps_transaction. The argument: none, a struct step; a struct step, which is done and
 * then aborted; a struct step, whose number gets to be the worker's counter. */
int set_up(void *unused);
int step_do(void *step);
int step_abort(void *step);
int counter_get(void *step);

/* ---- tree.c: a treap, whose shape follows from what it holds ---- */
uint64_t tree_key(const struct node *node);
uint64_t tree_priority(const struct node *node);
void tree_insert(struct node **root, struct node *node);
void tree_delete(struct node **root, const struct node *node);

/* ---- check.c: crashload check ---- */
int check(int count, char **least);

/* ---- volume.c: the fifth process; 0 or -errno ---- */
int volume_step(unsigned number);
/* How many steps the containers tell of; *wrong: they tell of none, or of something else (CL6). */
int volume_counter(uint64_t *counter, const char **wrong);

/* ---- large.c: the sixth process; 0 or -errno ---- */
int large_begin(uint64_t pages, int encoder);
int large_step(uint64_t number);
int large_counter(uint64_t *counter, const char **wrong);

#endif
