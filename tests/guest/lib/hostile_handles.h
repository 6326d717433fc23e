/* hostile_handles.h - one of each kind of handle, for the hostile tests that pass them on. */
#ifndef HOSTILE_HANDLES_H
#define HOSTILE_HANDLES_H

#include <fcntl.h>

#include "hostile.h"

extern int my_port, copy, my_object, view, process, disk, stream, store, file, folder, ends[2];
extern uint64_t my_base;                   /* of a container that the store manager has */
extern char room[8192];
static const char here[] = "/tmp/hostile";

/* Makes them all; `self` is the path of this program, started again with the role "nothing". */
void prepare(const char *self);

/* For a process of its own, since here the view entered is not the library's: the store serves, and
 * a counter in it goes up. 0 or an errno. */
int role_count(void);

#endif
