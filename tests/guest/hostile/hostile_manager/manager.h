/* manager.h - what the parts of hostile_manager share. */
#ifndef MANAGER_H
#define MANAGER_H

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>

#include "own_manager.h"
#include "hostile.h"

enum { PAGES = 24, CREDITS = 16 };

/* A call of the manager's or of its client's is a step, at which the process may end. */
void step_counted(void);
#undef CALL
#define CALL(number, ...) \
    (step_counted(), kd_call6((number), CALL_SIX(__VA_ARGS__, 0, 0, 0, 0, 0, 0)))

enum { LARGE, ASKING, PLAIN, OBJECTS };

enum { LARGE_PAGES = 80, LARGE_CREDITS = 70, SMALL_PAGES = 4 };
enum { NEVER = 2 };            /* from there on nobody supplies */

enum kind { CALL_KIND, PAGE_KIND, PLAIN_KIND, LOCK_KIND, SPILL_KIND, UNSPILL_KIND, COMMIT_KIND,
            KINDS };

enum deed { HONEST, LIES, STORMS, STALLS, OWN_FAULT, CLOSES, DESTROYS, DETACHES, ABORTS, LEAVES,
            DEEDS };

enum { KIND_OPEN = 1, KIND_ECHO, KIND_END };

enum { GOOD = 9, MANAGER_WRONG = 40, SURE_S = 60, STALL_MS = 300, CALLS_MAX = 3000 };

/* ---- manager.c: a manager that does one thing wrong ---- */

extern long die_at, calls;
extern const char *const kind_names[KINDS];
extern const char name[], stalled[];
extern enum deed deed;
extern enum kind deed_kind;
extern uint64_t bases[OBJECTS], client;

int manager_role(void);

#endif
