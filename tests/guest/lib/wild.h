/*
 * wild.h - wild writes into committed pages, which no program can make itself: the host makes them
 * where the guest runs by `scripts/run --wild`.
 */
#ifndef WILD_H
#define WILD_H

#include <stdint.h>

/* The pages of all memory whose word i is v, and word j is w ... */
struct wild_page { unsigned i; uint64_t v; unsigned j; uint64_t w; };

/* ... have these bits of a word changed. How many pages they were. */
long wild_write(struct wild_page p, unsigned word, uint64_t bits);

#endif
