/* tap.h - the few lines of TAP that guest tests need, and kcheck at their end. */
#ifndef TAP_H
#define TAP_H

#include <katydid/call.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

extern int tap_failed;                  /* results that were not good, so far */

/* Says that n results will come. */
void tap_plan(int n);

/* Prints one result, named by `format`. Returns `good`, so that a test may go on or not. */
int tap_ok(int good, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One result: `got` is what was wanted; if not, both are printed. */
int is(long got, long wanted, const char *what);

/* Whether this is `make test-long`, which has time for all where `make test` takes a sample. */
bool tap_long(void);

/* The status for main() to return: 0 if all results were good and the kernel finds itself in
 * order. */
int tap_end(void);

#endif
