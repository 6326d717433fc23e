/*
 * board.h - a circuit board in a container: what the parts of the editor share.
 *
 * All of it is plain structs that point to each other. What moves while a board is edited, the
 * copper, lies in an arena of its own; names, which never change, lie apart from it.
 */
#ifndef BOARD_H
#define BOARD_H

#include <pstore.h>
#include <stdio.h>
#include <structures/rtree.h>
#include <structures/tree.h>

/* Lengths are nanometres; y grows downwards, as in the files. */
enum {
    MM = 1000000,
    REACH = 900 * MM,                                   /* coordinates are at most as large */
    CLEARANCE = 15 * (MM / 100), WIDTH = MM / 4,        /* of a new track: to others, its own */
};
struct at { int32_t x, y; };

/* What conducts, and lines of the board's edge, which have no layer. Its shape is the line from
 * end to end, made a rectangle by `half` on both sides, then rounded by `round` on all sides: so
 * any track, via and pad is one. */
enum kind { TRACK, VIA, PAD, EDGE };
struct copper {
    struct copper *of_net, *of_part;                    /* the next of the same net, part */
    struct net *net;                                    /* NULL: none */
    struct part *part;                                  /* of a pad */
    struct at end[2];
    int32_t half, round;
    uint32_t layers;                                    /* a bit for each; 0: front, 31: back */
    enum kind kind;
    char pad[12];                                       /* a pad's name within its part */
};
struct part { struct copper *pads; struct at at; char name[]; };
struct net { struct copper *first; char name[]; };

PS_STRING_TREE(parts, struct part *);
PS_STRING_TREE(nets, struct net *);
PS_RTREE(places, struct copper *, 2);
struct board {                                          /* the root object */
    ps_arena *copper;
    struct parts_head parts;
    struct nets_head nets;
    struct places_head places;
    int loads;                                          /* boards that were loaded */
};
extern ps_container *container;
extern struct board *board;                             /* what the running transaction sees */
extern struct parts parts;
extern struct nets nets;
extern struct places places;

/* Who has changed something and cannot go on leaves the transaction: all of it is undone. */
static inline void must(int error) { if (error) ps_abort(error); }
static inline void *sure(void *p) { if (!p) ps_abort(errno); return p; }
static inline double mm(double nm) { return nm / MM; }

/* shape.c */
struct places_box box_of(const struct copper *c, double margin);
double gap(const struct copper *a, const struct copper *b);     /* 0 or less: they touch */
int corners(const struct copper *c, double corner[4][2]);       /* before the rounding: how many */
/* edit.c */
void place(struct copper *c);                           /* its place is known from now on, */
void displace(struct copper *c);                        /* or no longer */
struct copper *copper_new(struct copper values);
/* A word in mm, as units; -EINVAL: it is no number, or too large. */
int length_read(const char *word, double *length);
/* Commands: 0 or -errno, and nothing was changed. Words that were not given are NULL. */
int load(char **words);
int move(char **words);
int rip(char **words);
int route(char **words);
int list(char **words);
int check(char **words);
int draw(char **words);

#endif
