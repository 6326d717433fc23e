/* patterns.h - in which order Cricket's and OO1's operations touch pages, as traces; and how often
 * policies that know each use miss in them. */
#ifndef BENCH_PATTERNS_H
#define BENCH_PATTERNS_H

#include <stdint.h>

#include "user/managers/replacement/policy.h"

struct trace { const char *name; unsigned pages, count, room; uint16_t *page; };

enum { PATTERNS = 5 };
/* Makes the trace of a pattern, in memory that stays; what touches a page twice in a row is there
 * once. */
struct trace trace_make(unsigned pattern);

/* How many touches miss, from an empty memory on. */
unsigned misses_by(const struct policy *p, const struct trace *t, unsigned frames);
unsigned misses_lru(const struct trace *t, unsigned frames);
/* The least possible: the page goes whose next use is the furthest away (Belady). */
unsigned misses_least(const struct trace *t, unsigned frames);

#endif
