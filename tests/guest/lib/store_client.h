/* store_client.h - the store manager's protocol by bare calls, for tests that want no library. */
#ifndef STORE_CLIENT_H
#define STORE_CLIENT_H

#include <errno.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "katydid/call.h"
#include "process.h"
#include "pstore.h"
#include "store_protocol.h"
#include "system.h"
#include "tap.h"

extern int client_port;                 /* of the manager; -1: not found yet */
extern _Thread_local struct kd_message client_reply; /* the answer to its last request */

/* Finds the store manager; 0 or -errno. */
int client_connect(void);

/* A request of three words and some data; 0 or -errno. Words and data of the answer are in
 * client_reply and `out`. */
long client_call(uint32_t kind, uint64_t w0, uint64_t w1, uint64_t w2, const void *data,
                 size_t bytes, void *out, size_t out_bytes);

/* Opens a container; 0 or -errno. `type`, `version` and `bytes` say its layout (NULL: any). */
long client_open(const char *name, uint32_t flags, const char *type, uint32_t version,
                 uint32_t bytes, struct wire_opened *out);

/* Connects to the manager that runs now, be it one that init must start first, and opens a
 * container; 0 or -1. */
int client_reopen(const char *name, uint32_t flags, struct wire_opened *out);

/* A request whose data is a name; 0 or -errno. */
long client_name(uint32_t kind, uint64_t container, const char *name);

struct wire_stats client_stats(void);

/* Flushes of the store's log that its clients asked for, by commits or by ps_flush: without those
 * of the empty groups that its manager writes when it is idle, whenever that is. For tests in which
 * a commit is a group, as it is with one client. `name` of the store; -errno. */
long client_flushes(const char *name);

/* `pages` fresh pages of the container, or NULL. */
void *client_lease(uint64_t container, uint64_t pages, const void *near);

/* ---- transactions ---- */

struct client_txn {
    jmp_buf out;
    int view;                           /* + 1; 0: none yet */
    uint64_t batch[4096];
    size_t batch_bytes;
    char stack[16384] __attribute__((aligned(16)));
};
extern _Thread_local struct client_txn client_txn;
extern _Thread_local struct kd_commit client_commit; /* what the last commit was told */

/* Adds an operation to the batch of the running transaction. */
void client_op(uint32_t kind, uint64_t container, const void *address, uint64_t value,
                 const char *name);

/* Runs fn in a transaction and commits it if fn returns 0; else aborts. 0 or -errno; a
 * deadlock's victim runs again. */
long client_run(long (*fn)(void *), void *arg);

#endif
