/* press.h - for guest tests: memory that is full of another manager's pages. */
#ifndef TEST_PRESS_H
#define TEST_PRESS_H

/* Has /bin/squares fill the memory until so many pages of containers were evicted, and ends it.
 * False: it could not be started. */
int press_memory(unsigned long evictions);

#endif
