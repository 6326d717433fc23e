/*
 * manager.h - serve the faults of memory objects (external pagers): policy on top of the kernel's
 * mechanism. The store manager is built on the same kernel calls; user/squares.c is a whole
 * example. Results: int is 0 or -errno, pointers are NULL with errno.
 */
#ifndef KATYDID_MANAGER_H
#define KATYDID_MANAGER_H

#include <stddef.h>
#include <stdint.h>

struct km_object;                             /* a memory object that this process manages */
struct km_request {                           /* answer each exactly once, from any thread */
    struct km_object *object;
    void *user;                               /* as given to km_create */
    uint64_t page, count, view, token;        /* wanted pages; who asks (view + 1, or 0) */
    int access;                               /* KM_READ or KM_WRITE */
};
struct km_ops {                               /* policy; NULL means what stands in brackets */
    void (*page)(struct km_request *r);       /* not resident [zero fill] */
    void (*lock)(struct km_request *r);       /* with KM_ASK: every first touch [grant] */
    void (*clean)(struct km_object *o, uint64_t page);     /* frame wanted back [pin] */
    int (*commit)(struct km_object *o, uint64_t view);     /* km_diff, then 0 or -errno [0] */
    void (*gone)(struct km_object *o, uint64_t view, int died); /* end, abort or death */
    void (*call)(struct km_object *o, void *message, int bytes); /* your own protocol; in place */
};
enum { KM_READ = 1, KM_WRITE = 2, KM_TRANSACTIONAL = 4, KM_ASK = 8 };

int km_create(const char *name, uint64_t pages, int flags, const struct km_ops *ops, void *user,
              struct km_object **out);
int km_serve(int threads);                    /* returns only on error */
void *km_address(struct km_object *o);        /* where clients see it */

/* ---- answers: each ends the request ---- */
int km_supply(struct km_request *r, const void *pages, uint64_t count);
int km_supply_disk(struct km_request *r, int disk, uint64_t sector, uint64_t count);
int km_zero(struct km_request *r);
int km_grant(struct km_request *r);
int km_fail(struct km_request *r, int error); /* the client's thread gets the error */

/* ---- unasked, at any time ---- */
int km_push(struct km_object *o, uint64_t page, uint64_t count, const void *pages); /* prefetch */
int km_resident(struct km_object *o, uint64_t page, uint64_t count, uint8_t *bits);
int km_recall(struct km_object *o, uint64_t page, uint64_t count, int to);
long km_diff(struct km_object *o, uint64_t view, uint64_t *cursor, void *buffer, size_t bytes);
int km_write_home(struct km_object *o, uint64_t page, int disk, uint64_t sector, uint64_t *csn,
                  uint32_t *crc);
int km_cleaned(struct km_object *o, uint64_t page, uint64_t csn);
/* Those that are in memory stay there; how many. -ENOMEM: no more may (KD_LIMIT_PINS). */
int km_pin(struct km_object *o, uint64_t page, uint64_t count, int on);
/* KD_ADVISE_*; to how many pages in memory it applies. */
int km_advise(struct km_object *o, uint64_t page, uint64_t count, int advice);
int km_wait(uint64_t view, const uint64_t *blockers, int n); /* a wait of the manager's own */
int km_credit(struct km_object *o, uint64_t copies);
int km_abort(uint64_t view, int error);

/* ---- clients of a manager. A manager is published under the name of its first object. ---- */
/* KM_READ, KM_WRITE: its address */
void *km_open(const char *manager, const char *object, int flags);
int km_call(const char *manager, const char *object, void *message, int bytes); /* to ops->call */

#endif
