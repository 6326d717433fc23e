/*
 * kit.h - a concurrency kit for those who design structures: areas of memory that threads or
 * processes share, latches and semaphores in them, and server tasks.
 *
 * Containers need none of it: there loads and stores take the locks. It is for what lies beside
 * them: buffers, queues of work, cursors that processes share. All of it is volatile.
 *
 *     static int serve(void *arg, struct ps_request *r) { ... }       of one thread, in order
 *     ps_area *a = ps_area_make("desk", 4096, &(struct ps_task){.serve = serve});
 *     ps_area *a = ps_area_open("desk");                              in another process
 *     struct { struct ps_latch latch; int n; } *desk = ps_area_memory(a);
 *     ps_latch_take(a, &desk->latch, -1);  desk->n++;  ps_latch_give(a, &desk->latch);
 *     ps_ask(a, &question, sizeof question, -1);                      answered by serve
 *
 * Results: int is 0 or -errno, pointers are NULL with errno. Times are in milliseconds; -1: for
 * ever, 0: do not wait. Of a shared area every call may also return -ENOTCONN: the process that
 * made it has ended. Chapter: kit.md.
 */
#ifndef PS_KIT_H
#define PS_KIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- server tasks ---- */

/* A ps_request is what somebody asks. The message is the task's until `serve` returns. */
struct ps_request {
    uint64_t client;            /* the process that asks: a number that is never used again */
    uint64_t token;             /* for ps_answer */
    void *message;              /* of at most PS_MESSAGE_MAX bytes; the answer goes in its place */
    size_t bytes;               /* of the message; serve sets it to those of the answer */
};
enum { PS_MESSAGE_MAX = 4096, PS_LATER = 1 };

/* A ps_task's thread serves one request after another: what only it touches needs no latch. It may
 * give to latches and semaphores of its area, and waits for none there (-EDEADLK). */
struct ps_task {
    /* `serve` returns 0 or -errno: the answer, with r->bytes of r->message. PS_LATER: ps_answer
     * will give it, called from serve or gone. */
    int (*serve)(void *arg, struct ps_request *r);
    /* `gone`: this client has closed the area, or its process has ended; forget what it asked.
     * NULL: no matter. */
    void (*gone)(void *arg, uint64_t client);
    void *arg;
};

/* ---- areas ---- */

typedef struct ps_area ps_area; /* a volatile handle, good for all threads of its process */
enum { PS_AREA_MAX = 16 << 20 };

/* ps_area_private makes memory of this process, zeroed, with the same latches, semaphores and task:
 * what is for areas works among threads, without the kernel's names. task: copied; NULL: none. */
ps_area *ps_area_private(size_t bytes, const struct ps_task *task);
/* ps_area_make makes memory that every process has which opens this name, at one address in all; 1
 * byte to PS_AREA_MAX, zeroed, never swapped. A thread of this process serves it, and the area ends
 * with this process: who touches it then is ended, too. -EPERM: the process may not publish names
 * (`allow names` in the shell); -EEXIST; -ENAMETOOLONG: 63 bytes at most. */
ps_area *ps_area_make(const char *name, size_t bytes, const struct ps_task *task);
/* ps_area_open opens an area. -ENOENT: nobody has made it (yet). A process that opens it twice has
 * one client number. A child of fork has nothing open and opens it itself. Whoever may run can open
 * it: what lies in it is no more trustworthy than the processes that have it. */
ps_area *ps_area_open(const char *name);
/* ps_area_close unmaps an area; of its maker: ends it for all. Not from `serve`. */
int ps_area_close(ps_area *a);
void *ps_area_memory(const ps_area *a);
size_t ps_area_bytes(const ps_area *a);         /* whole pages, if it is shared */
/* ps_ask asks the area's task, and waits for the answer, which replaces the message; `bytes`: of
 * the message, at most PS_MESSAGE_MAX, and room for the answer. What serve returned, or -ETIMEDOUT,
 * -EMSGSIZE, -ENOSYS (no task), -EDEADLK (from serve itself). */
int ps_ask(ps_area *a, void *message, size_t bytes, int timeout_ms);
/* ps_answer answers a request for which serve returned PS_LATER. -ESRCH: nobody waits for it any
 * more; -ENOMEM: the kernel had no memory for the data, and who asked has heard that. */
int ps_answer(ps_area *a, uint64_t token, int result, const void *data, size_t bytes);

/* ---- latches and semaphores: in the area's memory, 8-byte aligned ---- */

/* A latch has one holder, a thread. Zeros: nobody. Without waiting, taking and giving are one
 * instruction each and no call. */
struct ps_latch { uint64_t word; };
/* ps_latch_take: 0: the caller holds it. -EOWNERDEAD: he holds it, and a process ended while it
 * held the latch: what the latch guards may be half done. That is said to each who takes it until
 * one says ps_latch_repaired. -EDEADLK: this thread has it already; -ETIMEDOUT; -ENOBUFS:
 * PS_WAITERS_MAX threads wait in this area. */
int ps_latch_take(ps_area *a, struct ps_latch *l, int timeout_ms);
int ps_latch_give(ps_area *a, struct ps_latch *l);      /* -EPERM: another one's, or nobody's */
int ps_latch_repaired(ps_area *a, struct ps_latch *l);  /* -EPERM */
enum { PS_WAITERS_MAX = 1024 };

/* A ps_images keeps what a latch's holder changes as it was before: in the area, guarded by that
 * latch, zeros at first. The holder says ps_image before each change, and ps_images_drop when all
 * is done, before he gives the latch; who is told -EOWNERDEAD says ps_images_restore, and then
 * ps_latch_repaired. He may die himself in it: the next one does it again. */
enum { PS_IMAGES_MAX = 127 };
struct ps_images { uint64_t used, unused; struct { uint64_t at, word; } image[PS_IMAGES_MAX]; };
/* ps_image keeps these bytes, in whole words of 8. -EINVAL: not of the area; -ENOSPC. */
int ps_image(ps_area *a, struct ps_images *i, const void *p, size_t bytes);
void ps_images_drop(struct ps_images *i);
void ps_images_restore(ps_area *a, struct ps_images *i);

/* A semaphore counts what is there: 0 to 2^31 - 1. It has no holder: what a process took and did
 * not give before it ended is missing; tell by a latch or a task whose it was. */
struct ps_semaphore { uint64_t value, waiters; };
void ps_semaphore_begin(struct ps_semaphore *s, unsigned value);        /* before anybody uses it */
/* ps_semaphore_take waits for one and takes it. -ETIMEDOUT, -ENOBUFS */
int ps_semaphore_take(ps_area *a, struct ps_semaphore *s, int timeout_ms);
int ps_semaphore_give(ps_area *a, struct ps_semaphore *s, unsigned n);  /* -EOVERFLOW */

#ifdef __cplusplus
}
#endif

#endif
