/*
 * directory_rig.h - the store manager's directory module (user/store/directory.h) over a store of
 * stage.h, for tests: a plan is committed as the manager would, in a group of its own.
 */
#ifndef TESTS_DISK_DIRECTORY_RIG_H
#define TESTS_DISK_DIRECTORY_RIG_H

#include "stage.h"

#include "user/store/directory_table.h"

#define ROOT DIRECTORY_AT_ROOT
enum { R = DIRECTORY_READ, W = DIRECTORY_WRITE, D = DIRECTORY_DELETE, N = DIRECTORY_RENAME,
       M = DIRECTORY_MANAGE, G = DIRECTORY_GRANT, ALL = DIRECTORY_ALL };

extern struct directory *dir;
extern struct directory_report dir_report;

int  ops_commit(struct store_op *ops, unsigned count);    /* in a group of their own */
/* done: of a plan: committed and applied. Its own result, if it is none. */
int  done(int planned);
void dir_open(void);
void dir_reopen(void);                  /* the power is cut and comes again */
void dir_make(uint64_t disk_bytes, uint64_t log_bytes);
void dir_unmake(void);
struct directory_found at(struct directory_at from, const char *path);  /* serial 0: nothing */
int  walks(struct directory_at from, const char *path);
/* handle: as a handle of what the path names. */
struct directory_at handle(struct directory_at from, const char *path, uint32_t rights);
/* dir_picture: all that counts, in one number: rows and entries, whatever their places. */
uint64_t dir_picture(void);

#endif
