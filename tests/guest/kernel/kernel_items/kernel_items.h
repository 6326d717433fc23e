/* kernel_items.h - what the parts of kernel_items share. */
#ifndef KERNEL_ITEMS_H
#define KERNEL_ITEMS_H

#include "items.h"

enum { PAGES = 1 << 16, HOME_PAGES = 128, GREEDY_PAGE = 50 };

extern const char *self;                /* the program's name, for children */

void pages_of_two(void);                /* pages.c: two writers of a page, snapshots, deaths */
void scenarios(void);                   /* scenarios.c: those of the model that were left */
void memory_at_its_end(void);
void end_of_the_object(void);           /* log.c; nothing works afterwards */
void order_of_log(void);                /* log.c: what is told, and published in which order */
void many_writers(long rounds);         /* load.c */
void snapshot_elsewhere(void);
void snapshot_amid(void);
bool gathers(struct kd_message *m);     /* log.c: for start_manager() */

#endif
