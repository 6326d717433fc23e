/*
 * copy_protocol.h - what a store manager that is one of two copies (spare.md) says to init, to link
 * and to people. Its port has a name from the start on, whether it is home or not.
 */
#ifndef USER_STORE_COPY_PROTOCOL_H
#define USER_STORE_COPY_PROTOCOL_H

#include <stdint.h>

#define COPY_PORT "store copy"
#define COPY_EXIT 5                     /* exit status: another may be home; start it again */
#define COPY_NAME_BYTES 32u
#define COPY_RECAST_BYTES 64u           /* of a container's name */

enum copy_request {
    COPY_STATUS = 1,    /* -> data: struct copy_status */
    COPY_TAKE_OVER,     /* with a handle of the system that has KD_RIGHT_DISKS; word0 1: a person
                         * says that the other copy is off, so the witness is not asked. -> when it
                         * is home; -EBUSY: it is; -EAGAIN: it lacks what the home may have
                         * acknowledged, or was told that the other one is home; -EPERM */
    COPY_BACKUP,        /* as STORE_BACKUP, of a spare. -EAGAIN: it is none; -EBUSY: its log was
                         * full before all was copied, or it became home */
    COPY_RECAST,        /* likewise; data: the names of a container and of one like it that has
                         * another layout, each with its zero; none: no more. -> 0: it is converted
                         * from now on, and changed when this copy becomes home; or as
                         * recast_begin, and data: the type that is refused. -EAGAIN: this is
                         * no spare */
};
enum copy_is { COPY_STARTING, COPY_HOME, COPY_SPARE, COPY_TAKING, COPY_OUT };

struct copy_recast {
    char name[COPY_RECAST_BYTES];       /* the container; empty: none has another layout */
    uint64_t pages, converted;          /* pages it has; converted so far, some again */
    uint64_t wrong, wrong_page;         /* cannot be converted as they are; the first of these */
    uint32_t wrong_type, all;           /* a type in that; all that was applied lately is made */
    int32_t error;                      /* of that page; or why there will be no other layout */
    uint32_t done;                      /* this home has put it in */
    uint64_t took_us;
};
struct copy_status {
    char own[COPY_NAME_BYTES], other[COPY_NAME_BYTES], witness[COPY_NAME_BYTES];
    uint32_t is, frozen, mate, named, reached, asynchronous;
    int32_t error;                      /* 0 or -errno; -ESTALE: it is to be copied anew */
    uint32_t untold;                    /* the witness has not heard of a person's take-over */
    uint64_t witness_reached;           /* 1: its site has a session with this one */
    uint64_t term;
    uint64_t end, other_end;            /* bytes of the log: here; at the other one, of a home */
    uint64_t applied;                   /* of a spare: so far; all it has is `end` */
    uint64_t groups;                    /* sent, or taken */
    uint64_t waited_us, waits;          /* commits for the other copy, together; how many */
    uint64_t took_us;                   /* the last take-over: from the last word of the home */
    struct copy_recast recast;          /* of a spare; or what became of it when it became home */
};

#endif
