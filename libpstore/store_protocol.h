/*
 * store_protocol.h - what libpstore and the store manager say to each other.
 *
 * Requests are KD_PORT_CALLs to the port published under the store's name ("store"); `kind` is
 * below, words as listed. Everything that changes the store in a transaction travels in the batch
 * of KD_TXN_COMMIT as a sequence of struct wire_op, applied by the committer in log order (TR4).
 * Structs are called wire_, as those of the disk library are called store_.
 */
#ifndef STORE_PROTOCOL_H
#define STORE_PROTOCOL_H

#include <stdint.h>

#define STORE_PROTOCOL_VERSION 9
#define STORE_NAME_BYTES 64u

#ifndef STORE_TXN_ID
#define STORE_TXN_ID
struct store_txn_id { uint8_t bytes[16]; };
#endif

/* Exit statuses of a manager that said why it does not start: another try would say the same. */
#define STORE_EXIT_NO_DISK 2
#define STORE_EXIT_REFUSED 3
/* STORE_EXIT_ZONE: the sites have to agree where the new store is (store.zone=ask). */
#define STORE_EXIT_ZONE 4

/* A zone has the addresses of a store's containers: of zones 0 to 7 8 TiB each, one behind the
 * other; of 16 to 31 halves of these, in the same order. */
#define WIRE_REGION_BASE 0x200000000000ull
#define WIRE_ZONE_SMALL 16u
static inline int wire_zone_valid(uint32_t zone)
{
    return zone < WIRE_ZONE_SMALL / 2 || (zone >= WIRE_ZONE_SMALL && zone < 2 * WIRE_ZONE_SMALL);
}
static inline uint64_t wire_zone_bytes(uint32_t zone)
{
    return (zone < WIRE_ZONE_SMALL ? 8ull : 4ull) << 40;
}
static inline uint64_t wire_zone_base(uint32_t zone)
{
    return WIRE_REGION_BASE + zone % WIRE_ZONE_SMALL * wire_zone_bytes(zone);
}
static inline int wire_zone_has(uint32_t zone, uint64_t address)
{
    return address - wire_zone_base(zone) < wire_zone_bytes(zone);
}

/* The cookie of a container's memory objects is its number, then 4 bits for the segment, so that a
 * client can ask the kernel (KD_CONTAINER_INFO) to whom an address belongs. */
#define STORE_COOKIE_CONTAINER(cookie) ((cookie) >> 4)

/* STORE_KEPT stands before a store's name: a port of init's that exists as long as it starts a dead
 * manager again. */
#define STORE_KEPT "kept "

enum store_request {
    STORE_HELLO = 1, /* word0 version; word1 container, word2 key: of a representative, or 0 ->
                      * word0 version, word1 log bytes, word2 zone of addresses */
    STORE_OPEN,      /* data: struct wire_open, and behind it, if its name is empty, a path with a
                      * NUL; all empty: what the caller's handle is of -> data: struct wire_opened.
                      * The manager attaches the container's memory object(s) to the calling
                      * process. */
    STORE_CLOSE,     /* word0 container */
    STORE_DELETE,    /* data: path[64] or [256] -> word0 container, which this process has not open
                      * now */
    STORE_RENAME,    /* data: two of these, from and to, of one size -> word0 container */
    STORE_LIST,  /* word0 container, word1 entries that there is room for (0: 64, the most) -> word0
                  * how many containers the caller's root has; data: struct wire_entry[] of those
                  * with higher numbers than `container`, in their order */
    STORE_LEASE, /* word0 container, word1 pages wanted (contiguous), word2 near address or 0,
                  * -> word0 address, word1 pages. The process may use them for new objects; a
                  * lease is volatile, belongs to the process and ends with it. */
    STORE_SPACE, /* word0 container, word1 bytes and WIRE_ROOM_TAG, word2 near address -> word0
                  * address of a page that had so much room when last heard of, now leased; -ENOENT:
                  * none known */
    STORE_UNLEASE,    /* word0 address, word1 pages */
    STORE_NAMED,      /* word0 container, data: name[64] -> word0 address, word1 bytes; -ENOENT */
    STORE_STATS,      /* -> data: struct wire_stats */
    STORE_CHECKPOINT, /* -> when done */
    STORE_STOP,       /* from init only, else -EPERM -> when all pages are home, the store is closed
                       * as clean, and the manager ends; -EIO: not closed, the next start
                       * recovers */
    STORE_FORM,       /* word0 container, open for writing, word1 enum wire_form, word2 what it is
                       * from now on. Of what it does not have yet. -EBUSY: others have it open, or
                       * it is in use (an encoder: only to or from KD_ENCODER_RANGES); -EINVAL: no
                       * such value, or items with another encoder than KD_ENCODER_DIFF; -ENOTSUP:
                       * another program serves it */
    STORE_ADVISE, /* word0 address, word1 pages, word2 KD_ADVISE_WILL_NEED: up to 1,024 of them are
                   * in memory when it is answered, or being brought for others; KD_ADVISE_DONT_NEED
                   */
    STORE_HELD,   /* word0 address of a page -> word0 1: a commit wrote or claimed it; else 0 */
    STORE_SCRUB, /* word0 1: reads every copy that is on the disk once, and mends; answers when done
                  * (-EBUSY: too many wait for that; -EROFS, -EIO: nothing can be mended). word0 0:
                  * at once -> since the start: word0 rounds, word1 KiB read, word2 repairs, word3
                  * lost pages */
    STORE_AUDIT, /* word0 1: all pages in memory that have codewords are compared with them, and
                  * mended if they are damaged; answered when that is done; 2: the page at the
                  * address word1. 0: at once -> since the start: word0 rounds, word1 pages looked
                  * at, word2 damaged, word3 mended. -EIO: nothing can be mended */
    STORE_NAMES, /* word0 container, word1 0 or where to go on -> word0 where to go on, 0: the end;
                  * data: struct wire_name[], in no order */
    STORE_NEXT,  /* word0 container, word1 0 or the address of a page -> word0 address, word1 pages:
                  * the first  run behind it that commits wrote or claimed; word0 0: word2 is where
                  *            to
                  * go  on, 0: the end */
    STORE_FLUSH, /* -> when every commit answered before the call is durable; -EIO: the store takes
                  * no more commits, and those that were lazy may be lost */
    STORE_WATCH, /* word0 a number of the client's own, word1 1: more of the same watch, 0: a new
                  * one; data: addresses of pages that it has read in its transaction, ascending,
                  * at most 128; none of a new one: no watch any more. Names that are made or
                  * removed end each watch. -EDQUOT: too many, no memory; -EACCES */
    STORE_WAIT,  /* word0 that number -> when a commit changes, or is about to change, one of them,
                  * after STORE_WATCH; then it is no watch any more. -ENOENT */
    STORE_BACKUP, /* data: name of a disk; word0 1: whatever is on it is overwritten, else -EEXIST
                   * if anything is; with a handle of the system that has KD_RIGHT_DISKS ->
                   * when all of the store is copied there: word0 KiB written, word1 blocks of pages
                   * that cannot be read and are zeros in the copy, word2 rounds, word3 rounds begun
                   * anew. -EBUSY: a copy is being made, or writers are faster than it; -ENOSPC:
                   * the disk is smaller than the store; -EIO: metadata or log cannot be read, or it
                   * cannot be written. With word0 1 the error is that of opening the disk: -EPERM
                   * (no such right), -ENODEV, -EBUSY, -EINVAL */
    STORE_MANAGER, /* data: name[64], then the path of a program and its arguments, a NUL behind
                    * each: the container of that name, which is made if there is none, has this
                    * program as its manager from now on. No program: the store manager again.
                    * -EBUSY: somebody has it open; -ENOTEMPTY: it has pages of its own; -ENOENT,
                    * -EACCES: of the program; -E2BIG: more than WIRE_MANAGER_BYTES; -EINVAL */
    STORE_MANAGED, /* data: name[64] -> data: program and arguments; -ENOENT: the store manager
                    * serves it, or there is no such container */
    STORE_DECIDE, /* word0 container, open for writing, word1 enum wire_decide, more words by that:
                   * who decides about first touches of its pages (decide.c) */
    /* ---- of representatives, and of who starts them (kept.c) ---- */
    STORE_SERVE,  /* word0 container, word1 key, word2 enum wire_serve. -EBADMSG: that is no object
                   * for this container; -ESRCH: the store has given it up; -EPERM: the keeper has
                   * not started this process for it */
    STORE_KEEPER, /* word0 1: from now on the caller starts programs; with a handle of the system
                   * that has KD_RIGHT_PROCESSES -> data: struct wire_order, when there is one */
    STORE_ENDED,  /* word0 container, word1 key, word2 status, or -errno: it did not start */
    STORE_PIN,    /* word0 address, word1 pages, word2 1: they come into memory and stay, until
                   * word2 is 0 with the same ones, or the process has the container open no more.
                   * -ENOMEM: more than the process may pin, or all; -EMFILE: too many ranges;
                   * -EINVAL: beyond the segment, or (0) not pinned; -ENOTSUP: a container with a
                   * manager of its own, a store that is only read; -EIO: a page cannot be read */
    STORE_SEGMENT, /* word0 container, word1 number, from 0 -> word0 address, word1 pages of this
                    * segment. -EACCES: the process has not opened it; -ENOENT */
    /* ---- directories and grants (directories.md); data: path[256], from the caller's root ---- */
    STORE_MAKE,    /* a directory. -EEXIST, -ENOENT, -ENOTDIR, -EACCES */
    STORE_ENTRIES, /* word0 0 or where to go on -> word0 where to go on, 0: the end; data: struct
                    * wire_named[], in no order */
    STORE_LOOK,    /* -> data: struct wire_named; its name is the path's last part */
    STORE_HANDLE,  /* word0 rights in bits 16 to 31, KD_RIGHT_GRANT -> with a handle of it */
    STORE_LINK,    /* word0 rights; with a handle of this store that has them and KD_RIGHT_GRANT: a
                    * new entry for what that is of. -EXDEV: of no grant; -EMLINK */
    STORE_UNLINK,  /* the entry and its grant, with all that came of it -> word0 grants. -EPERM */
    STORE_TAKE_BACK, /* what came of its grant -> word0 grants */
    STORE_LIMIT,   /* word0 enum wire_limit, word1 1: word2 is the most from now on (~0: no limit),
                    * else only a look -> word0 the most, word1 what is held. -ENOTDIR, -EACCES */
    STORE_AT, /* word0 an address -> word0 rights, READ and perhaps WRITE; data: a path from the
               * caller's root to the container there, which gives these. -ENOENT: there is none, or
               * no path that was found */
    STORE_HOLDERS, /* word0 0 or where to go on -> word0 where to go on, 0: the end; word1 the
                    * manager's pid; data: struct wire_holder[], of those who hold what the path
                    * leads to by its grant, or one made out of that. Needs MANAGE */
    STORE_CHUNK, /* word0 container, open for writing, word1 pages that go home together, at most
                  * WIRE_CHUNK_MAX; 0: as many as the store likes. Or WIRE_CHUNK_CONSISTENT: and
                  * nobody commits meanwhile */
    STORE_TXN,   /* word0 enum wire_txn; data: an id of 16 bytes. From who may manage the root */
    STORE_OUTCOME, /* of another site's store: word0 and word1 what a COMMIT of an earlier session
                    * said as value and address of its WIRE_ID -> word0 enum wire_outcome; the last
                    * one: too much was committed since */
};
#define WIRE_CHUNK_MAX 256u
#define WIRE_CHUNK_CONSISTENT 0x10000u

/* A wire_txn is a request about transactions of several stores (user/store/votes.md). */
enum wire_txn {
    WIRE_TXN_VOTER,  /* COMMITs of this process may have WIRE_VOTE and WIRE_DECISION from now on; no
                      * id; data: the site that it speaks for, whose share they are of; or nothing.
                      * -EAGAIN: there are too many such */
    WIRE_TXN_VOTED,  /* -> when the COMMIT with this id, which may come later, has its vote: 0, or
                      * why it was refused, if it is one of the last 64 that were. -EPERM. word1 1:
                      * it does not come, and whoever asks that hears -ECANCELED */
    WIRE_TXN_COMMIT, /* what is prepared under this id is committed, its COMMIT answered; -> when
                      * that is durable; word1 1: it may be lazy, as who decided keeps that it did.
                      * -ENOENT; -EBUSY: another one decides it just now */
    WIRE_TXN_UNDO,   /* ... is undone: -ECANCELED to the COMMIT, also to one that comes later */
    WIRE_TXN_ASK,    /* -> word0 enum wire_outcome; of what is not known the last one, for good */
    WIRE_TXN_FORGET, /* nobody asks for this decision any more. -ENOENT */
    WIRE_TXN_NEXT,   /* word1 0 or where to go on -> word0 where to go on, data: struct wire_doubt;
                      * -ENOENT: that was all. No id */
    WIRE_TXN_NAME,   /* -> word0, word1: the store's name for its peers. No id */
    WIRE_TXN_PEER,   /* word1 enum wire_peer_request; data: struct wire_peer, in the name of a store
                      * of another site -> as there */
    WIRE_TXN_HOLD,   /* word1 0: commits are put off, for 250 ms at most -> word0 the hold's number;
                      * -EAGAIN: something is under way or prepared still, or commits are to rest
                      * from the last one: again. word1 the number: they go on; -ESTALE: they went
                      * on before. -EPERM. No id */
};
enum wire_outcome { WIRE_UNDONE, WIRE_COMMITTED, WIRE_IN_DOUBT };
#define WIRE_PARTICIPANTS_MAX 8u
#define WIRE_SITE_BYTES 32u             /* a site's name with its NUL */

/* A peer request is what a machine's stores ask each other, at port "peer ZONE" of each (parts.c);
 * word0 the caller's zone, word1 a number that the answer repeats; data: struct wire_peer. -EPERM:
 * the caller is not the store of that zone; -ENOENT: nor is the one who is asked this store. */
enum wire_peer_request {
    WIRE_PEER_OUTCOME = 1, /* of the first id -> word0 enum wire_outcome */
    WIRE_PEER_DOUBTS,      /* -> word0: a mask of the ids that are prepared here. What is not is
                            * durable, whichever it was */
};
enum { WIRE_PEER_IDS = 64 };
struct wire_peer {
    uint8_t store[16];                          /* who is asked */
    uint64_t count;
    struct store_txn_id id[WIRE_PEER_IDS];
};

/* Stores of other sites have such ports where their manager runs, `remote`; a call to the port of
 * this name begins those that do not. */
#define STORE_SITES "remote"
enum { STORE_SITES_WANT = 0x1100 };

/* A wire_lack explains -EACCES by a path: word0 the rights that are missing, 0: not said; word1
 * those that are there; word2 at what: the path without so many of its last parts, and or-ed: */
enum wire_lack { WIRE_LACK_TO = 1 << 8, /* the second path */
                 WIRE_LACK_HANDLE = 2 << 8, /* the handle that was sent */
                 WIRE_LACK_ROOT = 3 << 8, WIRE_LACK_WHERE = 3 << 8, WIRE_LACK_UP = 255 };

/* The form of a container (STORE_FORM): how its pages are logged, PS_ENCODE_*; what transactions
 * lock in it, 0 pages, 1 items; what protects it, PS_PROTECT_*; when its commits are durable, one
 * of PS_DURABLE, ... */
enum wire_form { WIRE_FORM_ENCODER, WIRE_FORM_LOCKING, WIRE_FORM_PROTECTION, WIRE_FORM_DURABILITY,
                 WIRE_FORMS };

/* A wire_limit is STORE_LIMIT's word0. */
enum wire_limit { WIRE_LIMIT_PAGES, WIRE_LIMIT_COMMITS, WIRE_LIMIT_VERSIONS, WIRE_LIMIT_NAMES };

/* A wire_serve is STORE_SERVE's word2. */
enum wire_serve {
    WIRE_SERVE_PORT,  /* with a handle of the program's port, for clients */
    WIRE_SERVE_FIRST, /* with one of the memory object of the first segment, word3 KD_RIGHT_* of
                       * clients to all -> when it is to end */
    WIRE_SERVE_PLACE, /* word3 the number of a segment -> word0 address, word1 pages: the container
                       * has one of this number from now on. -EINVAL: not the one before; -ENOSPC */
    WIRE_SERVE_MORE,  /* before the first: with the object of segment word3, 1, 2 and so on.
                       * -EMFILE: containers of several segments take too many handles */
};

/* A wire_decide is STORE_DECIDE's word1; from the fourth on from who decides (else -EPERM). */
enum wire_decide {
    WIRE_DECIDE_KERNEL, /* the kernel has all rights: the default */
    WIRE_DECIDE_STORE,  /* each first touch comes to the store manager, which grants it */
    WIRE_DECIDE_CALLER, /* ... goes to the caller, until it ends or closes the container. -EBUSY:
                         * another program decides */
    WIRE_DECIDE_NEXT,   /* -> when there is one, a question: word0 WIRE_ASKED, word1 address of the
                         * page, word2 KD_READ or KD_WRITE, word3 view, word4 its number; or word0
                         * WIRE_RECALLED: a user has ended of what was called back, or somebody
                         * asks no more. -EINTR:
                         * the program has called once more; -ECANCELED: it decides no more */
    WIRE_DECIDE_GRANT,  /* word2 address, word3 pages, word4 rights, word5 the question's number, or
                         * 0: for all. -ESRCH: nobody waits for it any more */
    WIRE_DECIDE_FAIL,   /* word2 address, word4 errno, word5 number. -ESRCH: nobody asks it any
                         * more. EAGAIN: no answer yet; with WIRE_DECIDE_AND_NEXT, if nobody asks,
                         * WIRE_RECALLED is next */
    WIRE_DECIDE_RECALL, /* word2 address, word3 pages, word4 what is not called back (KD_READ, 0),
                         * KD_RECALL_DROP -> word0 how many of them are used still, word1 and word2
                         * by which views */
    WIRE_DECIDE_WAITS,  /* word2 a view waits, word3 and word4 for which; -EDEADLK: it aborts */
    WIRE_DECIDE_AND_NEXT = 16, /* or-ed: WIRE_DECIDE_NEXT behind it, however it went */
};
enum { WIRE_ASKED, WIRE_RECALLED };

/* kd_commit.flags: 0, or the commit is lazy: answered when it is in the log, and flushed with the
 * next commit that is not, or after so many milliseconds; STORE_LAZY: as many as the store likes
 * (store.lazy_ms). */
#define STORE_LAZY 0xffffffffu
/* STORE_BULK: the commit is a load: new pages go past the log (spill.c). It is not lazy. */
#define STORE_BULK 0xfffffffeu

struct wire_open {
    char name[STORE_NAME_BYTES], type[STORE_NAME_BYTES];
    uint32_t flags, version, bytes;   /* flags: PS_CREATE ... */
    uint32_t now;                     /* 1: not to wait for a manager that starts: -EINPROGRESS */
};
struct wire_opened {
    uint64_t container, base, pages;  /* pages: address space of the first segment */
    uint64_t root_address;            /* 0: not made yet (a name "\1root" by wire_op)  */
    uint64_t created;                 /* 1: this call made it */
    uint32_t form[WIRE_FORMS];
    uint64_t kept;                    /* a program serves so many segments of it; with a handle of
                                       * its port. 0: the store manager serves it */
};
struct wire_entry {
    char name[STORE_NAME_BYTES], type[STORE_NAME_BYTES];
    uint32_t version, bytes;
    uint64_t container, base, pages_used, pages_max, kept;
    uint32_t form[WIRE_FORMS];
};
#define WIRE_PATH_BYTES 256u
/* WIRE_MAY_... are rights of a handle, as the kernel attests them; libpstore's PS_MAY_... << 16. */
enum {
    WIRE_MAY_READ = 1 << 16, WIRE_MAY_WRITE = 2 << 16, WIRE_MAY_DELETE = 4 << 16,
    WIRE_MAY_RENAME = 8 << 16, WIRE_MAY_MANAGE = 16 << 16, WIRE_MAY_GRANT = 1024,
    WIRE_MAY_ALL = 31 << 16 | 1024
};
struct wire_named {
    char name[STORE_NAME_BYTES];
    uint64_t container, grant, made_of; /* made_of 0: the first grant */
    uint32_t rights, directory;
};
struct wire_holder {
    uint64_t process, grant;            /* who has it open, or asked for the handles */
    uint64_t badge;                     /* 0: it is open; else the number of the handles ... */
    uint32_t rights, handles;           /* ... and how many there are; with these rights */
};
#define WIRE_MANAGER_BYTES 480u
enum { WIRE_START = 1, WIRE_KILL };
struct wire_order {
    uint32_t what, text_bytes;
    uint64_t container, key;
    uint64_t base, pages, delay_ms;   /* START: where its object lies; wait so long first */
    uint64_t segments;                /* of the container */
    int64_t process;                  /* KILL: 0 if the store does not know it */
    char name[STORE_NAME_BYTES];      /* of the container */
    char text[WIRE_MANAGER_BYTES];    /* START: program and arguments, a NUL behind each */
};
/* With START comes a handle of the directory that the container lies in: with these rights it is
 * all that the program has, as handle 0 and in PS_ROOTS. */
#define WIRE_KEPT_MAY (WIRE_MAY_READ | WIRE_MAY_WRITE | WIRE_MAY_DELETE | WIRE_MAY_RENAME)
/* STORE_KEPT_BY tells a representative of store, container, key, base, pages, segments, name. */
#define STORE_KEPT_BY "KM_CONTAINER"
struct wire_name {
    char name[STORE_NAME_BYTES];
    uint64_t address, bytes;
};
struct wire_stats {
    uint64_t commits, groups, log_writes, log_bytes, flushes, checkpoints, home_writes;
    uint64_t pages_read, log_bytes_free, log_bytes_total, disk_bytes_free, disk_bytes_total;
    uint64_t lsn, refused, containers;
};

enum wire_op_kind {
    WIRE_NAME_SET = 1, /* container, address, bytes, name: fails the transaction with -EEXIST
                            * (the library retries) if another one set it meanwhile */
    WIRE_NAME_UNSET,   /* container, name */
    WIRE_PAGE_FREE,    /* container, address, pages: wholly free; their contents are gone */
    WIRE_ROOM,         /* container, address of a page, bytes free and a tag: a hint, not logged */
    WIRE_PAGE_CLAIM,   /* container, address, pages, all leased by this process: an object's for
                            * good, also those that it never writes */
    WIRE_LAYOUT,       /* container, its type as name, version and bytes (WIRE_LAYOUT_VALUE): what
                            * an open must say from now on; -EBUSY while another process has it
                            * open. One of them at most */
    WIRE_INDEX_SET,    /* container that is an index (index_format.h), length of the key as address,
                        * value; the key as name: is there with this value from now on */
    WIRE_INDEX_UNSET,  /* the same: is not there any more. -E2BIG from both: too many, or too many
                        * pages */
    WIRE_VOTE,         /* struct wire_vote; first: the COMMIT is not answered before it is decided,
                        * over any number of lives of the store, and WIRE_TXN_VOTED says when it can
                        * be. -EOPNOTSUPP: it has changes of indexes or of a layout, or pages that
                        * are in no log; -E2BIG: it has spilled, or is too large to be kept */
    WIRE_DECISION,     /* struct wire_decision; first: that this commits is kept, with those who may
                        * ask, until WIRE_TXN_FORGET. -EALREADY: it is decided */
    WIRE_ID,           /* to another site's store alone: any container, a number drawn for this
                        * attempt as address, the session as value (word7 of STORE_OPEN's answer):
                        * for STORE_OUTCOME */
    WIRE_NOTE,         /* container, two words as address and value, a name that begins with
                        * WIRE_NOTES: these are noted under it, in place of what was. One at most */
};
#define WIRE_NOTES '\a'                 /* such names are listed with others, and are no objects */
/* WIRE_ROOM_TAG: a page's tag, 1 to 255; 0: none. STORE_SPACE looks for pages with that tag. */
#define WIRE_ROOM_TAG(tag)  ((uint64_t)(tag) << 16)
#define WIRE_ROOM_BYTES(value) ((value) & 0xffff)
#define WIRE_ROOM_TAG_OF(value) ((value) >> 16)
#define WIRE_LAYOUT_VALUE(version, bytes) ((uint64_t)(bytes) << 32 | (version))
/* These three stand behind their struct wire_op, in place of a name; its other fields are 0. */
struct wire_vote { struct store_txn_id id; uint8_t coordinator[16]; };
struct wire_participant { uint8_t store[16]; uint64_t number; };
struct wire_decision { struct store_txn_id id; struct wire_participant participant[]; };
struct wire_doubt {
    struct store_txn_id id;
    uint8_t  coordinator[16];
    uint64_t pages;
    uint32_t prepared, participants;    /* prepared 0: a decision that is kept */
    struct wire_participant participant[WIRE_PARTICIPANTS_MAX];
};
struct wire_op {
    uint32_t kind, op_bytes;          /* op_bytes: this struct and the name, rounded up to 8 */
    uint64_t container, address, value;
    char name[];                      /* NUL-terminated */
};

#endif
