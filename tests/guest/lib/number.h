/* number.h - containers that hold one number, for tests of who may read and write them. */
#ifndef NUMBER_H
#define NUMBER_H

#include <stdint.h>

#include "pstore.h"

struct page { uint64_t number; };       /* the root object */
#define PAGE PS_LAYOUT(struct page, 1)

struct job { ps_container *c; uint64_t number; };

/* Bodies of transactions, given a struct job: its number becomes the container's, or it gets that
 * one. 0 or -errno. */
int number_set(void *job);
int number_get(void *job);

#endif
