/*
 * subject.h - a structure under test, beside a model that does the same to plain arrays.
 *
 * What is kept, the head of the structure and the model, lies in one object. So whatever undoes the
 * structure's changes undoes the model's: a copy of the memory on the host, an abort or a power cut
 * in the guest. The same subjects are driven by tests/host/test_structures.c, on volatile memory,
 * and by tests/guest/pstore/pstore_structures.c, in a container.
 */
#ifndef SUBJECT_H
#define SUBJECT_H

#include <errno.h>
#include <string.h>
#include <structures/structure.h>

struct subject {
    const char *name;
    size_t bytes;               /* of what is kept; zeros at first */
    void (*place)(void *kept, struct ps_memory memory);     /* comes first, in each process */
    int (*set_up)(void);
    int (*tear_down)(void);
    /* One operation, drawn at random; growing: mostly insertions. An error: nothing was done. */
    int (*operation)(int growing);
    void (*compare)(void);      /* all of it with the model, and what the structure's check says */
    size_t heads;               /* bytes of what is kept that are the structure's: the first ones */
};
enum { SUBJECT_BYTES = 1 << 17 };

extern const struct subject *const subjects[];              /* up to NULL */
extern const struct subject subject_btree;                  /* of the test on the host alone */

/* Random numbers from a seed that a test prints. */
extern uint32_t subject_seed;
uint32_t draw(uint32_t below);

/* A subject stores to what a structure has let it have, and says so as a program has to. */
void subject_stores(const struct ps_memory *memory, const void *p, size_t bytes);

/* What differed first, as text, or NULL; and how a subject says so. */
extern const char *subject_difference;
#define SAME(condition) ((condition) ? (void)0 : subject_differs(__FILE__, __LINE__, #condition))
void subject_differs(const char *file, int line, const char *what);

#endif
