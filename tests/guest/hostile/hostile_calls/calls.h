/* calls.h - what the parts of hostile_calls share. */
#ifndef CALLS_H
#define CALLS_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "katydid/trace.h"

#include "hostile_handles.h"
#include "store_protocol.h"

enum { FUTEX_WAIT = 0, FUTEX_REQUEUE = 3, FUTEX_CMP_REQUEUE = 4, FUTEX_WAIT_BITSET = 9 };

/* Name and number of a call, for the tables. */
#define NAMED(call) #call, call

/* Where the system's aborts go: none of the calls here should cause one. */
void aborted(long reason);
extern char abort_stack[16384];
#define ABORTS .entry = (uint64_t)aborted, .stack = (uint64_t)(abort_stack + sizeof abort_stack - 8)

#define COUNT(table) (int)(sizeof(table) / sizeof(table)[0])
#define G(...) (unsigned long)(__VA_ARGS__)

/* ---- pointers.c: bad pointers and bad handles ---- */

extern struct kd_message message;
extern const struct timespec moment;

/* A line of a table is tried: its call is not forgotten (none_forgotten). */
extern char tried_call[KD_CALL_END];

long try_call(long number, const unsigned long a[6]);
void katydid_pointers(void);
void linux_pointers(void);

/* Pointers inside of structures. A child that a call started after all ends at once (role), and
 * does not test in its turn. */
void inner_pointers(const char *self);

void handles(void);

/* ---- values.c: bad lengths, counts, flags and structures ---- */

void katydid_values(void);
void object_structures(void);
void supply_structures(void);
void process_structures(const char *self);
void message_structures(void);
void transaction_structures(void);
void linux_values(void);

/* Where the disk's size cannot be told it is not open: nobody holds it. */
void disk_opened(void);

/* All of Katydid's calls have a line in a table, but those that are given nothing, and the list of
 * dirty pages: it is empty here, and copies nothing. */
void none_forgotten(void);

#endif
