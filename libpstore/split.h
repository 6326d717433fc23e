/*
 * split.h - where the functions of the store are carried out for a program: in its own process, or
 * in that of a trusted server, at this machine or at the container's home (user/sites/modes.md).
 *
 * Read, lock, log, commit, abort and allocate each have a place, which a *configuration* says when
 * the container is opened; the program is the same for all:
 *
 *     static int pay(ps_split *p, void *amount) {
 *         struct root *root = ps_split_root(p);
 *         struct root now;
 *         int error = ps_split_read(p, root, 0, &now, sizeof now);
 *         now.paid += *(int64_t *)amount;
 *         return error ? error : ps_split_write(p, root, 0, &now, sizeof now);
 *     }
 *     ps_split *p = ps_split_open("box", PS_WRITE, layout, "mix", NULL);
 *     int error = ps_split_transaction(p, pay, &amount);
 *
 * An *operation* is a transaction that has a name: a function of loads and stores, carried out
 * as a whole where commits are. The server is a program that knows the same operations: the
 * container's owner starts it (ps_split_serve), and says so to nobody but by starting it.
 *
 * A handle is one thread's at a time. Results: int is 0 or -errno, pointers are NULL with errno.
 */
#ifndef PS_SPLIT_H
#define PS_SPLIT_H

#include "pstore.h"

#ifdef __cplusplus
extern "C" {
#endif

/* PS_UPDATES, a flag of both opens: pages of another site's container that this site has used come
 * anew when they have been changed, without being asked for. Elsewhere it means nothing. */
enum { PS_UPDATES = 64 };

/* An operation: `run` is called in a transaction, with the container and the caller's `bytes`
 * bytes, which the caller has as they are then, if it returns 0. It may be run again, with what the
 * caller said. */
struct ps_operation {
    const char *name;                   /* of at most 31 bytes */
    int (*run)(ps_container *c, void *argument);
    size_t bytes;                       /* at most PS_SPLIT_BYTES */
};
enum { PS_SPLIT_BYTES = 4096,           /* of an argument, a read, a write */
       PS_SPLIT_RECORDS = 60 << 10 };   /* half of it: of all that a transaction writes; half: that
                                         * it reads, by records (-E2BIG) */

typedef struct ps_split ps_split;       /* a volatile handle */

/* ps_split_open opens a container for one configuration. "local": all six at the client; "mix":
 * read, lock and log at the client, the others at the server; "server": all there; or pairs:
 * "read=client lock=client log=server commit=server abort=server allocate=server". A program whose
 * pages come to it opens the container (flags, root: ps_open's); who has no function at the client
 * but the log opens nothing, only needs the right. PS_CREATE is the server's. operations: those of
 * the program, ended by one without a name; or NULL. EINVAL: no configuration: what is not said, or
 * cannot be (ps_split_why); ENOENT: no server has begun to serve this container; EMFILE: it has 32
 * clients; else as ps_open. */
ps_split *ps_split_open(const char *container, int flags, const struct ps_layout *root,
                        const char *configuration, const struct ps_operation *operations);
void ps_split_close(ps_split *p);       /* NULL does nothing; not in its transaction */
/* ps_split_why tells the rule that this thread's last EINVAL of ps_split_open is about. */
const char *ps_split_why(void);

/* ps_split_run carries an operation out, in no transaction. What it returned, or as ps_transaction;
 * -ENOSYS: the server does not know it; -EMSGSIZE: other bytes than its own; -EOWNERDEAD: the
 * server, or the session with its site, ended, and nobody knows whether it was done. */
int ps_split_run(ps_split *p, const char *operation, void *argument, size_t bytes);

/* ps_split_transaction calls fn(p, arg) as a transaction of the functions below: 0 commits. After a
 * deadlock, or when somebody got in between, fn runs again. What one of them fails with ends it,
 * and is the result, whatever fn returns. */
int ps_split_transaction(ps_split *p, int (*fn)(ps_split *p, void *arg), void *arg);

/* The next five are for it. `object`: of ps_alloc or ps_root; the bytes lie in it (EINVAL). */
void *ps_split_root(ps_split *p);
int ps_split_lock(ps_split *p, const void *object, int mode);           /* PS_S, PS_X */
int ps_split_read(ps_split *p, const void *object, size_t offset, void *to, size_t bytes);
int ps_split_write(ps_split *p, void *object, size_t offset, const void *from, size_t bytes);
void *ps_split_alloc(ps_split *p, size_t bytes, const void *near);

/* ps_split_pass makes a way to the container's server for a confined program, all that it needs: a
 * handle, which goes with KD_PROCESS_CREATE, and stands in the program's PS_ROOTS as
 * "serve/:N=NAME". By ps_split_open(NAME, ..., "server", NULL) the program has operations carried
 * out (-EPERM: any other function), as one who may write (PS_WRITE) or read the container, as long
 * as the grant of that stands (EIDRM); four clients at a time (EMFILE). To be closed (ps_drop).
 * -ENOENT: nobody serves it; -EACCES; -EMFILE: 64 are passed; -EOPNOTSUPP: it is another site's. */
int ps_split_pass(const char *container, int flags);

/* ps_split_counts tells how often it asked the server, and how often transactions ran again because
 * somebody got in between, since it was opened. */
struct ps_split_counts { uint64_t calls, again; };
void ps_split_counts(const ps_split *p, struct ps_split_counts *out);

/* ps_split_serve makes this process the server of a container: publishes "serve NAME", NAME without
 * directories, and serves until it is ended. Who may open the container is served, with the rights
 * that he has: who may only read sees a snapshot. -EPERM: it may not publish names (`allow names`);
 * -EEXIST: somebody serves it; -ENOTSUP: it locks items; else as ps_open. */
int ps_split_serve(const char *container, int flags, const struct ps_layout *root,
                   const struct ps_operation *operations);

#ifdef __cplusplus
}
#endif

#endif
