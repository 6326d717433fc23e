/*
 * bug.c - the switch of the planted bugs (bug.h); empty in a normal build.
 */
#include "bug.h"

#ifdef KATYDID_BUGS
uint64_t bug_mask;
#else
typedef int no_bugs_here;
#endif
