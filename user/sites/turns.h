/* turns.h - the order in which two threads hear what each has received (turns.c). */
#ifndef USER_SITES_TURNS_H
#define USER_SITES_TURNS_H

#include <stdint.h>

/* Until all that came before is heard; `batch`: of the inbox. */
void turn_await(uint64_t batch);
/* All of it is heard. */
void turn_ends(void);

#endif
