/*
 * handle.h - handles: a process's numbers for kernel objects, with rights.
 *
 * H1  A slot in use holds one reference to its object.
 * H2  A handle never has more rights than the one it was copied from.
 */
#ifndef KERNEL_HANDLE_H
#define KERNEL_HANDLE_H

#include "process.h"

enum handle_type {
    HANDLE_NONE, HANDLE_PROCESS, HANDLE_PORT, HANDLE_OBJECT, HANDLE_VIEW, HANDLE_BLOCK,
};

/* A new handle of p; consumes one reference to `object` if it succeeds. Number, -EMFILE, -ENOMEM. */
must_check int handle_new(struct process *p, enum handle_type type, void *object, uint32_t rights);
/* The object behind a handle of the calling process, with a reference; NULL and *error: -EBADF (no
 * such handle, or another type) or -EACCES (a right is missing). */
must_check void *handle_get(int handle, enum handle_type type, uint32_t rights, int *error);
void handle_ref(enum handle_type type, void *object);
void handle_put(enum handle_type type, void *object);
must_check int handle_close(struct process *p, int handle);
/* Copies a handle of `from` into a given free slot of `to`, or any with to_slot -1. */
must_check int handle_pass(struct process *from, int handle, struct process *to, int to_slot);
/* The same with fewer rights (0: the same ones). */
must_check int handle_pass_rights(struct process *from, int handle, struct process *to, int to_slot,
                                  uint32_t rights);

#endif
