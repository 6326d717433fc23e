/* mapping.h - windows: ranges of addresses that show parts of containers (mapping.c). */
#ifndef KERNEL_MAPPING_H
#define KERNEL_MAPPING_H

#include "process/process.h"

/* mapping_find finds p's window at an address, or NULL. Windows locked. */
const struct mapping *mapping_find(const struct process *p, vaddr_t at);
bool mapping_at(struct process *p, vaddr_t at, struct mapping *out); /* the same, a copy */
/* mapping_first: where in a container lies what a window shows at `at`; 0: no window has so many
 * bytes there. An address that is none of windows stays as it is. */
vaddr_t mapping_first(struct process *p, vaddr_t at, uint64_t bytes);
/* mappings_end ends p's windows at `at`, or whose first page lies in a range. False: no such. */
bool mappings_end(struct process *p, vaddr_t at, vaddr_t first, uint64_t bytes);

#endif
