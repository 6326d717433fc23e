/*
 * katydid/trace.h - what the kernel records of itself: the events, once for kernel, programs and
 * host.
 *
 * Each CPU has a ring of the last KD_TRACE_KEPT or, while somebody traces, KD_TRACE_EVENTS events;
 * each event's number counts from 0. A trace file brings this list with it (user/trace), so that
 * scripts/trace2json knows it, too. kernel/look/tracing.md tells how to read them.
 *
 * `always` marks those that are also recorded while nobody traces, for crash reports.
 */
#ifndef KATYDID_TRACE_H
#define KATYDID_TRACE_H

#include <stdint.h>

/* X(event, what its c, a and b are, always) */
#define KD_TRACE_LIST(X) \
    X(LOST,     "-", "events", "-", 0)                /* made by who reads: the ring went round */ \
    X(SWITCH,   "-", "-", "-", 0)  /* this thread goes on here; 0: idle, kernel */                 \
    X(NAME,     "-", "text", "text", 1)               /* this process runs this program */ \
    X(EXIT,     "status", "-", "-", 1)                /* the process has ended */ \
    X(CALL,     "number", "first", "second", 0)       /* a system call begins */ \
    X(RETURN,   "number", "result", "-", 0) \
    X(FAULT,    "access", "address", "place", 0)  /* access: 1 store, 2 jump, 8 by the kernel */   \
    X(FAULTED,  "-", "address", "right", 0)           /* right: enum kd_trace_right */ \
    X(GROUP,    "pages", "address", "-", 0)           /* neighbours that were mapped with it */ \
    X(WAIT,     "for", "address", "-", 0)             /* enum kd_trace_wait; ends as it goes on */ \
    X(HELD,     "view", "address", "process", 0)      /* this view has it, and must end first */ \
    X(CALLBACK, "view", "address", "process", 0)  /* this view, idle or not using it, lost it */   \
    X(POST,     "item", "kind", "to process", 0)      /* of the kernel (KD_MSG_KERNEL + kind) */ \
    X(TAKE,     "item", "kind", "from process", 0)    /* ... and out of it */ \
    X(SEND,     "kind", "token", "-", 0)              /* a program's call, */ \
    X(RECEIVE,  "kind", "token", "from process", 0)   /* at its server, */ \
    X(REPLY,    "-", "token", "-", 0)                 /* its answer, */ \
    X(ANSWER,   "-", "token", "status", 0)            /* and that at the caller */ \
    X(BEGIN,    "mode", "ticket", "sees", 0) \
    X(FREEZE,   "copies", "ticket", "-", 1)           /* CM1: its copies are read-only */ \
    X(DIFF,     "view", "pages", "bytes", 1)          /* CM4: the manager has read what changed */ \
    X(PUBLISH,  "view", "csn", "-", 1)                /* CM7: others see it from here on */ \
    X(COMMIT,   "pages", "ticket", "csn", 1)          /* CM8: its owner goes on */ \
    X(ABORT,    "reason", "ticket", "-", 1) \
    X(DOOM,     "reason", "ticket", "view", 1)        /* it will abort: a victim, or as wished */ \
    X(BADGE,    "what", "number", "rights", 0)  /* enum kd_trace_badge | 256 * its server's pid */ \
    X(GRANT,    "what", "serial", "rights", 0)  /* enum kd_trace_grant | 256 * the client's pid */ \
    X(DISK,     "operation", "offset", "bytes", 1)    /* enum kd_trace_disk | 256 * its number */ \
    X(DONE,     "operation", "offset", "status", 1) \
    X(MARK,     "-", "text", "text", 1)  /* by KD_TRACE_MARK_IT: the manager's own steps */

enum kd_trace_event_kind {
#define KD_TRACE_ENUM(name, c, a, b, always) KD_TRACE_##name,
    KD_TRACE_LIST(KD_TRACE_ENUM)
#undef KD_TRACE_ENUM
    KD_TRACE_KINDS
};

enum kd_trace_right { KD_TRACE_MAPPED = 1, KD_TRACE_WRITABLE = 2, KD_TRACE_COPY = 4 };
enum kd_trace_wait { KD_TRACE_FOR_PAGE, KD_TRACE_FOR_CONTAINER, KD_TRACE_FOR_SUPPLY,
                     KD_TRACE_FOR_CREDIT,
                     KD_TRACE_FOR_LEAVE, KD_TRACE_FOR_COMMIT, KD_TRACE_FOR_SPILL,
                     KD_TRACE_FOR_ITEM };
/* What happened to a badge: it was made; sent, or with a child's pid in the upper half of `rights`
 * given to it; taken out of a message; called by; ended, all of the number */
enum kd_trace_badge { KD_TRACE_MADE, KD_TRACE_PASSED, KD_TRACE_GOT, KD_TRACE_USED, KD_TRACE_ENDED };
/* Told by a store manager (user/store/path.c): what a client did by the grant of that serial. The
 * upper half of `rights`: the container's number; of HANDED the lower half of the badge's; of
 * LINKED the grant that it was made of, KD_TRACE_FIRST set: container and first grant; of REFUSED,
 * where they are the missing ones, the request's kind. */
enum kd_trace_grant { KD_TRACE_OPENED, KD_TRACE_HANDED, KD_TRACE_LINKED, KD_TRACE_DROPPED,
                      KD_TRACE_TAKEN_BACK, KD_TRACE_LOST_IT, KD_TRACE_DELETED, KD_TRACE_REFUSED,
                      KD_TRACE_BY_HANDLE = 128 };    /* or-ed to OPENED: by a handle, not a name */
#define KD_TRACE_FIRST 0x80000000u
enum kd_trace_disk { KD_TRACE_READ_DISK, KD_TRACE_WRITE_DISK, KD_TRACE_FLUSH_DISK };

struct kd_trace_event {
    uint64_t time_ns;                          /* since boot; all CPUs agree */
    uint32_t thread, process;                  /* 0: the kernel's own */
    uint8_t kind, cpu, view, reserved;         /* view: its number + 1, or 0 */
    uint32_t c;
    uint64_t a, b;
};
_Static_assert(sizeof(struct kd_trace_event) == 40, "in trace files");

#define KD_TRACE_KEPT 64                       /* a CPU's events while nobody traces */
#define KD_TRACE_EVENTS 16384                  /* ... and while somebody does */

/* KD_TRACE (what, ...). One process traces at a time; its own events are left out. To begin and to
 * read needs KD_RIGHT_LOOK. */
enum kd_trace_what {
    KD_TRACE_START,   /* (): how many CPUs there are; -EBUSY, -ENOMEM */
    KD_TRACE_STOP,    /* (): -EPERM unless the caller started */
    KD_TRACE_READ,    /* (cpu, struct kd_trace_read *): how many events; also
                       * while nobody traces; -EINVAL, -EFAULT */
    KD_TRACE_MARK_IT, /* (text, text): up to 16 characters, in two words */
    KD_TRACE_GRANT_IT, /* (c, a, b): an event GRANT of these */
};
struct kd_trace_read {
    uint64_t position;  /* in: the first one wanted, by number; out: the next */
    uint64_t lost;                             /* out: of those wanted, gone already */
    struct kd_trace_event *events;
    uint64_t count;                            /* there is room for */
};

#endif
