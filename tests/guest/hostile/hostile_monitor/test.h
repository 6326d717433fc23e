/* test.h - what the two halves of the test share: programs that do as they are told. */
#ifndef TEST_H
#define TEST_H

#include "actor.h"

extern uint64_t allowed, refused;       /* so many requests */
extern int store;                       /* the handle of who has all rights; of the manager now */
extern struct order o;                  /* the next one, and what was said of the last */
extern struct report r;

uint64_t below(uint64_t limit);
/* Not what the monitor says: the first such is told, with how to repeat the run. */
void wrong(int actor, const char *what, const char *path, long got, long wanted);

/* A new order; the program does it, and says so: tell and hear. Program 0 is this one. */
void order(enum what what, long handle);
void run(int actor);
void tell(int actor, long handle, uint32_t rights);
void hear(int actor);
void drop(int actor, struct held *h);

/* One of the program's, perhaps of what was taken back; NULL: by all rights, of the others none. */
struct held *some_handle(int actor);
uint32_t some_rights(void);
struct way some_place(const struct held *h);
void request(const struct held *h, uint32_t kind, const char *path);
void op_handle(int actor, const struct held *h);
void op_take(int actor);
void operate(int actor, const struct held *h);
int compared(void);                     /* 0: the store has what the monitor has */
void compare(void);

#endif
