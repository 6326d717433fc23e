/* descriptor.h - file descriptors of a process. Contract in descriptor.c. */
#ifndef KERNEL_DESCRIPTOR_H
#define KERNEL_DESCRIPTOR_H

#include "process/process.h"

struct file;
struct node;

struct file *fd_file(struct process *p, int fd);             /* a reference, or NULL */
uint64_t fd_count(const struct process *p);                  /* that are in use */
/* fd_limit is above all descriptors, but for those from before the process lowered it. */
int fd_limit(const struct process *p);
/* fd_new takes the lowest free one from `lowest` on, or -EMFILE; and the reference in any case. */
must_check int fd_new(struct process *p, struct file *f, int lowest, bool close_on_exec);
/* fd_set closes what was there, and takes the reference over, also with -EBADF. */
must_check int fd_set(struct process *p, int fd, struct file *f, bool close_on_exec);
must_check int fd_close(struct process *p, int fd);
void fd_close_all(struct process *p);
/* fd_close_on_exec ignores a bad number, which closes nothing. */
void fd_close_on_exec(struct process *p, int fd, bool close);
bool fd_closes_on_exec(struct process *p, int fd);
struct node *cwd_get(struct process *p);     /* its working folder, with a reference */

#endif
