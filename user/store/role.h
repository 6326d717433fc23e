/*
 * role.h - which of two copies of a store is home: the roles of spare.md, their messages and the
 * witness's record. It knows neither kernel nor link; disk/ it calls (store_spare.h). The store
 * manager calls it (copy.c), and the program `witness`.
 *
 * One thread calls it, or the caller has a lock. Times are microseconds of a clock that runs on
 * while the machine is stopped. Whatever comes from outside may be anything: what is not the answer
 * to what was asked, or of another session, is passed over.
 *
 * The caller tells: role_tick at least every ROLE_TICK_US (role_hurries: at once), role_receive for
 * each message, role_link when the other copy comes into reach or is lost; of a home, role_sealed
 * and role_flushed for each group. It asks: role_serves before it answers anybody, and role_sure
 * for how much of the log is durable at both. What is behind that is neither applied, published nor
 * acknowledged.
 */
#ifndef USER_STORE_ROLE_H
#define USER_STORE_ROLE_H

#include "store.h"

#define ROLE_TICK_US  10000u
#define ROLE_LEASE_US 250000u
#define ROLE_GROUPS   2u                /* that are sealed and not applied */

enum role_is { ROLE_STARTING, ROLE_HOME, ROLE_SPARE, ROLE_TAKING, ROLE_OUT };

/* struct role_record: who is a store's home, who its spare (0: nobody), since when, by site. */
struct role_record { uint64_t term; uint32_t home, mate; };

enum role_kind {
    ROLE_READ_RECORD, ROLE_WANT_RECORD,         /* copy to witness */
    ROLE_RECORD, ROLE_GIVEN,                    /* witness to copy */
    ROLE_JOIN, ROLE_HAVE, ROLE_HEARD,           /* spare to home */
    ROLE_CATCH_UP, ROLE_GROUP, ROLE_NAMED, ROLE_BEAT,   /* home to spare */
    ROLE_VOUCHED,               /* copy to witness: by a person's word it is home, alone */
    ROLE_KINDS
};
enum { ROLE_TO_OTHER, ROLE_TO_WITNESS };

struct role_message {
    enum role_kind kind;
    uint64_t number;            /* of a request to the witness, and its answer; else the session */
    uint32_t site;              /* who asks the witness */
    struct role_record record;  /* the witness's; WANT_RECORD: wanted, of the term that it ends */
    int error;                  /* CATCH_UP: 0; -EAGAIN: no home, ask again; -ESTALE: copy anew */
    uint64_t term;
    store_lsn_t lsn;            /* JOIN: the log's end; CATCH_UP: where it is cut; HAVE: durable */
    store_lsn_t sure;           /* CATCH_UP: so much of that is durable at the home */
    uint32_t crc;               /* CATCH_UP: of the group before lsn */
    uint64_t stamp;             /* GROUP, BEAT: the home's clock; HAVE, HEARD: that of these */
    struct store_epochs epochs; /* JOIN, CATCH_UP */
    struct store_mark mark;     /* GROUP, CATCH_UP */
    uint8_t uuid[16];           /* JOIN, with the sizes: both must be those of the home */
    uint64_t disk_bytes, log_bytes;
    const void *group;          /* GROUP; only during the call */
    size_t bytes, used;         /* ... and those without zeros at its end: these travel */
};

struct role_calls {
    void *context;
    /* send sends or queues a message with the caller's group. It may be lost, with all behind. */
    void (*send)(void *context, int to, const struct role_message *m);
    /* opened: the store is open, and this its home; closing: that is over, it will be abandoned. */
    void (*opened)(void *context, struct store *store, const struct store_report *report);
    void (*closing)(void *context, struct store *store);
};

struct role {
    struct role_calls calls;
    struct disk_io io;
    const struct disk_memory *memory;
    struct store_open_options options;
    uint32_t own, other;        /* sites */
    uint64_t lease_us;
    size_t group_most;          /* larger groups cannot be sent; 0: there are none */

    enum role_is is;
    bool frozen;                /* HOME: serves nothing; lost: its mate, asks to go on alone */
    bool lost;
    bool named;                 /* HOME: the mate is in the record; SPARE: this one is */
    bool reached;               /* the other copy is */
    bool paused;                /* SPARE: applies nothing, for its disk is copied */
    bool vouched;               /* HOME by a person's word; the witness is still to hear of it */
    bool asynchronous;          /* answers wait for nobody; only a person has the copy take over */
    int  error;                 /* the disk's: nothing goes on; -ESTALE: copy it anew */
    uint64_t term, session;
    uint32_t mate;              /* HOME: whose HAVE answers wait for; 0 */
    struct store *store;        /* HOME, open */
    struct store_spare *copy;   /* SPARE, TAKING, OUT */
    struct role_record record;  /* as last heard */

    store_lsn_t flushed, have;  /* HOME: durable here; there (0: nothing was heard of it) */
    store_lsn_t shown;          /* what may have been when answers began to wait for HAVE */
    struct store_feed feed;     /* what the mate lacks, read back; without one: where the log of
                                 * a copy that wants to join parts from this one */
    store_lsn_t fed;            /* so far */
    store_lsn_t unfed;          /* a copy whose log ends before it cannot be fed */
    struct { const void *at; size_t bytes, used; store_lsn_t lsn; } sealed[ROLE_GROUPS]; /* last */

    struct { struct store_hold hold; bool begun; } away;  /* HOME, alone: half the log is kept for a
                                                           * copy that joins again */

    uint64_t heard_stamp;       /* HOME: newest of ours that the mate answered */
    uint64_t beat_us;           /* when something was sent to it last */
    uint64_t heard_us;          /* SPARE: from the home; OUT: since when there was none */
    uint64_t answered_us;       /* the last lease that was given, or the start */
    struct { uint64_t asked_us, wait_us; } join;        /* OUT: asked then (0: not yet, or it is
                                 * answered), and again after so long: only the newest counts */
    int      asked;             /* the witness: enum role_kind + 1; 0: nothing */
    bool     wants_mate;        /* WANT_RECORD: to name it */
    uint64_t asked_us, ask_number;
};

/* `role` is filled with zeros but for calls, io, memory, options, own, other, lease_us, group_most,
 * asynchronous. */
void role_start(struct role *role, uint64_t now);
void role_tick(struct role *role, uint64_t now);
void role_receive(struct role *role, int from, const struct role_message *m, uint64_t now);
void role_link(struct role *role, bool reached, uint64_t now);
/* role_take_over: a person says that the other copy is off, and stays so until the witness has
 * heard of this home (`vouched`): it is not asked, and what this copy lacks is lost. 0; -EBUSY: it
 * is home already; -EIO ...: the store does not open. */
int  role_take_over(struct role *role, uint64_t now);
/* role_asks_over: a person wants this copy to be home: the witness is asked. 0: it is TAKING;
 * -EBUSY: it is home; -EAGAIN: it may lack what was acknowledged, or is asked already. */
int  role_asks_over(struct role *role, uint64_t now);
/* role_hurries: a home has more to read for a copy that joins: another tick after others' turns. */
bool role_hurries(const struct role *role);
/* role_end ends the role, like a power cut. */
void role_end(struct role *role);

/* role_sealed: a group is sealed, and its bytes stay until it is applied. Before its write. */
void role_sealed(struct role *role, const struct store_group *group, uint64_t now);
void role_flushed(struct role *role, store_lsn_t end_lsn);
/* role_sure: all before that is durable at whoever must have it. 0: this is no home. */
store_lsn_t role_sure(const struct role *role);
bool role_serves(const struct role *role, uint64_t now);
/* role_heard: may it vote, or say what it has shown, for who asked at `asked_us` (NC4)? */
bool role_heard(const struct role *role, uint64_t asked_us);
/* role_beat asks the other copy for a word now, and not when the next BEAT is due. */
void role_beat(struct role *role, uint64_t now);

/* role_witness is the witness: the answer, and whether *record changed, which is durable before
 * that is sent. The caller has seen that m->site is who sent it. */
bool role_witness(struct role_record *record, const struct role_message *m,
                  struct role_message *answer);

#endif
