/*
 * katydid/abi.h - what user programs and the kernel agree on: call numbers, structures, messages.
 *
 * Calls use the `syscall` instruction with Linux's registers (rax = number; rdi, rsi, rdx, r10, r8,
 * r9; result in rax, negative = -errno). Numbers below 1000 are Linux's x86-64 calls and mean what
 * they mean there; Katydid's own begin at 1000. Every structure is plain data of fixed size.
 */
#ifndef KATYDID_ABI_H
#define KATYDID_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "katydid/numbers.h"

#define KD_PAGE_BYTES 4096u
#define KD_STORE_BASE 0x200000000000ull  /* top-level slots 64 to 191: 64 TiB for containers */
#define KD_STORE_END  0x600000000000ull
#define KD_WINDOW_BASE KD_STORE_END     /* slots 192 to 254: windows of each process */
#define KD_WINDOW_END 0x7f8000000000ull
#define KD_ZONE_BYTES 0x80000000000ull   /* 8 TiB: one store's share of the store region */
#define KD_VIEW_MAX   128
#define KD_NAME_MAX   64                 /* bytes of a name with its NUL */

enum kd_call {
#define KD_CALL_NUMBER(number, call, function) call = number,
    KD_CALLS(KD_CALL_NUMBER)
#undef KD_CALL_NUMBER
    KD_CALL_END
};

/* ---- handles ---- */
enum kd_right {
    KD_RIGHT_READ = 1, KD_RIGHT_WRITE = 2,     /* objects: what an attached client may do */
    KD_RIGHT_CALL = 4, KD_RIGHT_RECEIVE = 8,   /* ports; only its maker can receive */
    KD_RIGHT_MANAGE = 16,                      /* objects, disks, views, processes: everything */
    /* The system's handle: init begins with all, passes on what others need. Without: -EPERM. */
    KD_RIGHT_DISKS = 32,                       /* opens any disk */
    KD_RIGHT_NAMES = 64,                       /* publishes ports */
    KD_RIGHT_PROCESSES = 128,                  /* ends any process but init, sets niceness */
    KD_RIGHT_LOOK = 256,                       /* traces, looks at processes and kernel, checks */
    KD_RIGHT_HALT = 512,                       /* powers off */
    KD_RIGHT_GRANT = 1024,                     /* badges: may be given to other processes */
    KD_RIGHT_OWN = 65536,                      /* badges: it and 15 bits above are the owner's */
};
#define KD_RIGHTS_BADGE (KD_RIGHT_CALL | KD_RIGHT_GRANT | 0xffffu * KD_RIGHT_OWN)
#define KD_RIGHTS_SYSTEM (KD_RIGHT_DISKS | KD_RIGHT_NAMES | KD_RIGHT_PROCESSES | KD_RIGHT_LOOK \
                          | KD_RIGHT_HALT)
#define KD_RIGHTS_OBJECT (KD_RIGHT_READ | KD_RIGHT_WRITE | KD_RIGHT_MANAGE) /* of its maker */
enum { KD_SYSTEM_HANDLE = 0 };                 /* init, shell: where it is, and is passed */

/* ---- processes ---- */
/* What a process may have. kd_process_info shows use and limit; prlimit64 knows them as the
 * resources KD_RLIMIT + which, for the caller and its children. Some are Linux's: NOFILE, NPROC,
 * AS, DATA, RSS, MEMLOCK. What is refused: -ENOMEM (memory, pins), -EMFILE (handles, files),
 * -EAGAIN (threads, messages, processes), -ENFILE (views), -E2BIG (copies, unless they spill),
 * -ESTALE (versions). */
enum kd_limit {
    /* bytes: of its mappings; and what it has filled of them with what the kernel holds for it:
     * data of messages, batches, tables of objects */
    KD_LIMIT_MEMORY,
    KD_LIMIT_HANDLES, KD_LIMIT_THREADS, KD_LIMIT_VIEWS,
    KD_LIMIT_COPIES,                           /* private copies in memory, of all transactions */
    KD_LIMIT_MESSAGES,                         /* threads that have called somebody */
    KD_LIMIT_FILES,
    KD_LIMIT_PROCESSES,                        /* in the system, when it makes one more */
    KD_LIMIT_PINS,                             /* pages of its objects */
    KD_LIMIT_VERSIONS,                         /* old pages that one of its snapshots keeps */
    /* milliseconds that a touch waits for a manager to bring a page, and a commit for one that
     * stands on others (KD_PORT_BELOW) to pass it on; then -ETIMEDOUT */
    KD_LIMIT_ANSWER,
    KD_LIMITS
};
enum { KD_RLIMIT = 64 };
#define KD_HANDLES_PASSED_MAX 8
struct kd_process_create {
    const char *path;                          /* an ELF file in the file system */
    const char *const *argv, *const *envp;     /* NULL-terminated; envp may be NULL */
    int32_t fds[3];                            /* the child's 0, 1, 2; -1: same as the parent's */
    uint32_t flags;                            /* KD_PROCESS_* */
    uint32_t handle_count;
    int32_t handles[KD_HANDLES_PASSED_MAX];    /* become 0..handle_count-1 of the child */
    int32_t pid;                               /* out */
    uint64_t limits[KD_LIMITS];                /* by KD_LIMIT_*; 0: as its parent's */
    uint32_t handle_rights[KD_HANDLES_PASSED_MAX]; /* of these; 0: all that the handle has */
};
/* Of it, and of all that it starts or forks. FOREGROUND: Ctrl-C ends it; CONFINED: it finds no
 * names. */
enum { KD_PROCESS_FOREGROUND = 1, KD_PROCESS_CONFINED = 2, KD_PROCESS_FLAGS = 3 };
enum { KD_WAIT_NOHANG = 1 };
enum kd_look {
    KD_LOOK_LOG,                               /* what is left of the kernel's log */
    KD_LOOK_OBJECTS,                           /* memory objects: place, pages, users */
    /* the kernel's locks, as CPUs waited for them and held them; pid 1: holding is counted from now
     * on; 2: no longer */
    KD_LOOK_LOCKS,
    /* of a process: its memory, what it has attached, its windows */
    KD_LOOK_MAP,
    KD_LOOK_HANDLES,                           /* of a process */
    KD_LOOK_THREADS,                           /* of a process */
};
struct kd_view_stats {                         /* of a process */
    uint64_t commits, aborts, deadlocks, read_faults, write_faults, lock_waits, manager_calls;
    uint64_t pages_read, pages_logged;
    /* what managers read of its commits; what disks did for it */
    uint64_t log_bytes, disk_bytes;
};
struct kd_process_info {
    int32_t pid, parent;
    uint32_t state;
    int32_t at;                                /* where a call of its is: that process; 0: none */
    uint64_t frames, cpu_ns;
    uint64_t used[KD_LIMITS], most[KD_LIMITS]; /* by KD_LIMIT_* */
    char name[KD_NAME_MAX];
    struct kd_view_stats stats;
};
struct kd_system_info {
    uint64_t memory_bytes, free_bytes, uptime_ns;
    uint32_t cpus, processes;
    uint64_t read_faults, write_faults, grants_shared, grants_exclusive, callbacks, shootdowns;
    uint64_t deadlocks, page_requests, evictions, unknown_calls, publishes, block_reads;
    uint64_t block_writes, block_flushes, block_read_bytes, block_write_bytes;
    uint64_t objects, resident_pages, dirty_pages, versions, copies, publications;
    uint64_t idle_cycles;                      /* of all CPUs, by the time stamp counter */
    uint64_t grants_cluster;  /* of shared rights: neighbours of a page touched */
    uint64_t escalations;                      /* of page rights to locks of containers */
    uint64_t spills;                           /* private copies that went to a log */
    uint64_t write_waits;                      /* writes that waited a moment: too much was dirty */
    uint64_t kicks, flush_interrupts;          /* sent to other CPUs: to look for work; to flush */
    uint64_t reserved[2];
};

/* ---- messages ---- */
#define KD_WORDS 8
#define KD_DATA_MAX (1u << 20)
#define KD_CREDITS_CLOSED (1ull << 32)
/* of a port: its server hears KD_MSG_NOTIFY with KD_NOTIFY_CUT when a call that it has, the
 * innermost of its locus, is wanted no more: it asks which (KD_CALL_STATE) */
enum { KD_PORT_TELLS = 1 };
#define KD_NOTIFY_CUT (1ull << 63)
struct kd_message {
    /* a protocol's own number, or enum kd_message_kind */
    uint32_t kind;
    union {
        int32_t status;                        /* of a reply: 0 or -errno */
        uint32_t badge_rights;                 /* of a call received: of the handle it came by */
    };
    uint64_t token;                            /* received: names the call to answer; 0: a notice */
    /* received: the sender's process id; 0: the kernel */
    uint64_t process;
    uint64_t word[KD_WORDS];
    union {
        const void *data;                      /* sent along, copied; may be NULL */
        uint64_t badge;  /* of a call received: its number, if badge_rights is not 0 */
    };
    uint64_t data_bytes;
    void *buffer;                              /* where received data goes */
    /* in: its size; out: how much came (data_bytes of the sender; more than fits: -EMSGSIZE for the
     * sender) */
    uint64_t buffer_bytes;
    /* sent: a handle to copy to the receiver, with these */
    int32_t handle;
    uint32_t handle_rights;                    /* rights; 0: none. Received: the new one, or -1 */
};

/* Kinds from the kernel have the top bit set, so that no client can imitate them. */
enum kd_message_kind {
    KD_MSG_KERNEL = (int)0x80000000u,
    /* cookie, page, count, access, view + 1 or 0, object handle, number: supply or fail; the view's
     * ticket or 0. Only the first page is waited for; the others are likely to be wanted next.
     * KD_PAGE_ALONE with the access: no neighbours, touches are random. KD_PAGE_HERE: it is in
     * memory; grant the right, or fail. KD_PAGE_OLD: as the snapshot sees it that has this number,
     * in the ticket's place (KD_SUPPLY_OLD, or fail) */
    KD_MSG_PAGE,
    /* notice: cookie; one has ended that used what is called back (KD_PAGE_RECALLED); or nobody
     * asks any more what a PAGE of that object asked (its time is up, it is killed, it aborts): who
     * keeps questions looks which (KD_OBJECT_FAIL with EAGAIN) */
    KD_MSG_RECALLED,
    /* view, copies, spilled copies, kd_commit.flags and KD_PART_*, views that helped it (a mask:
     * low, high), told by KD_TXN_DIFF with the same token, bytes of their batches
     * (KD_DIFF_BATCH), 1 if the view itself stored to no object of this manager; data: the
     * batch; process; token: publish or refuse (a stacked manager: KD_HELPER or refuse) */
    KD_MSG_COMMIT,
    KD_MSG_CONFLICT,    /* notice: cookie, page, requesting view, blocking mask low, high */
    KD_MSG_VIEW_GONE,   /* notice: views whose transactions have ended (a mask: low, high) */
    KD_MSG_CLEAN,       /* notice: frames are wanted; word[0] pages */
    KD_MSG_CREDIT_LOW,  /* notice */
    KD_MSG_CLIENT_GONE, /* notice: process */
    KD_MSG_NOTIFY,      /* notice: word[0] the bits of KD_PORT_NOTIFY */
    KD_MSG_SPILL,       /* view, copies, wanted; process; token: KD_TXN_SPILLED or refuse */
    KD_MSG_UNSPILL,     /* view, cookie, page; process; token: KD_TXN_UNSPILL or refuse */
    /* notice to a holder's port: its number, address, pages (all, if somebody locks the container),
     * KD_READ or KD_WRITE, the view that waits, its ticket, 1: there were others that were not told
     * (KD_VIEW_LIST has them), 0 or why the holder is over: it has lost rights by force. The holder
     * itself as the view: a manager calls back some of these pages */
    KD_MSG_WANTED,
};

/* ---- memory objects ---- */
enum { KD_READ = 1, KD_WRITE = 2 };            /* access; also rights of pages */
enum { KD_PAGE_ALONE = 4, KD_PAGE_HERE = 8, KD_PAGE_OLD = 16 };
enum { KD_RECALL_DROP = 4 };
enum {
    /* touched in transactions only; writes are private */
    KD_OBJECT_TRANSACTIONAL = 1,
    KD_OBJECT_NOTICES = 4,                     /* CONFLICT and VIEW_GONE notices are wanted */
    /* its manager answers SPILL and UNSPILL; it hears VIEW_GONE of transactions that spilled and
     * abort */
    KD_OBJECT_SPILLS = 8,
    /* reading takes no right: who reads maps the newest version that is published, whoever writes;
     * a publication takes the older ones out of all tables, page by page, in the order in which the
     * transaction first wrote them. For what its manager alone writes, and locks in other ways */
    KD_OBJECT_UNLOCKED = 16,
    /* item mode: transactions may store to different words of a page at the same time, and declare
     * what they store (KD_TXN_DECLARE); all else is undone, or with KD_STRICT fails the commit
     * (-ERANGE). Not with KD_OBJECT_UNLOCKED; -EXDEV: of a stacked manager */
    KD_OBJECT_ITEMS = 32,
    /* a page is stored to in a transaction that has said so (KD_HINT_WRITE, KD_HINT_OPEN); with
     * KD_OBJECT_ITEMS, where the processor has protection keys, while bit 3 of PKRU is 0, too. Any
     * other store is SIGSEGV, or -EFAULT of a system call */
    KD_OBJECT_GUARD = 64,
    /* pages in memory have codewords, of KD_REGIONS regions each: what changes them beside
     * transactions is found, by KD_OBJECT_AUDIT, KD_HINT_CHECK, before a page is written home
     * (-EUCLEAN) and before what changed there is told (KD_TXN_DIFF: -EIO). -EXDEV: of a stacked
     * manager */
    KD_OBJECT_CODEWORDS = 128,
    /* its manager has each version: a snapshot asks for that of a page that it needs and that is
     * not here (KD_PAGE_OLD), and reads what is here without the kernel's having a right to it; and
     * what is published is clean */
    KD_OBJECT_VERSIONS = 256,
};
enum { KD_REGIONS = 8 };                       /* of a page */
/* page: the damaged one, or where to go on; regions: a bit for each that is; looked: at so many */
struct kd_damage { uint64_t page, regions, looked; };
enum kd_advice {
    /* of the whole object: KD_POLICY_CLUSTER 0, 64, 1 */
    KD_ADVISE_NORMAL, KD_ADVISE_SEQUENTIAL, KD_ADVISE_RANDOM,
    KD_ADVISE_WILL_NEED,                       /* the last to be evicted */
    KD_ADVISE_DONT_NEED,                       /* the first, after cleaning if they are dirty */
    KD_ADVISE_EVICT,                           /* they go at once, if clean; how many did */
    KD_ADVISE_MEMORY,                          /* of the whole object: KD_POLICY_MEMORY `count` */
    /* their old versions go, and snapshots that touch them end (-ESTALE); count 0: of none. How
     * many the whole object has then */
    KD_ADVISE_FORGET,
    /* nobody wants them any more, whichever version it is (KD_CSN_ANY), but older snapshots, which
     * see them while they are in memory, and then end (-ESTALE). No zeros are supplied of them
     * before it returns. How many are in memory; -EINVAL: its commits have a base */
    KD_ADVISE_FREED,
};
enum kd_encoder {
    KD_ENCODER_DIFF,                           /* what differs from the base */
    KD_ENCODER_FULL,                           /* changed pages, whole */
    /* what KD_HINT_WRITE declared, rounded out to 16 bytes; anything else that was stored is
     * undone, or with KD_STRICT fails the commit with -ERANGE */
    KD_ENCODER_RANGES,
    /* DIFF, or FULL where commits change most of a page */
    KD_ENCODER_ADAPTIVE,
};
struct kd_object_create {
    int32_t port, commit_port;                 /* PAGE and notices go here; COMMIT goes there */
    uint32_t flags;
    uint32_t reserved;
    uint64_t cookie;                           /* the manager's own name for it */
    uint64_t base, pages;                      /* base 0: the kernel chooses, and says it */
    char name[KD_NAME_MAX];                    /* for messages to people */
};
enum { KD_SUPPLY_ZERO, KD_SUPPLY_MEMORY, KD_SUPPLY_READ }; /* READ: came by KD_BLOCK_READ_PAGES */
/* or-ed to it: the version is newer than all snapshots that have begun, which end where they touch
 * it (-ESTALE). For a page of another site, fetched as it is now. No pages: none that has begun
 * sees the same number as one that begins from now on */
enum { KD_SUPPLY_NEWER = 16,
       /* or-ed to MEMORY: one page as the snapshots with the number `csn` see it, and nobody else.
        * -ESRCH: there is none any more, and who asked has ESTALE */
       KD_SUPPLY_OLD = 32 };
struct kd_supply {
    int32_t object;
    /* rights: KD_READ, KD_READ | KD_WRITE, or 0: each touch asks for its own. They are for all, or
     * for the touch that asked the question of this number alone */
    uint32_t source, rights;
    uint32_t number;
    uint64_t page, count, csn;
    const void *memory;                        /* MEMORY: bytes; READ: a csn each, or NULL */
};
struct kd_page_name { uint64_t cookie, page; };
#define KD_CSN_ANY (~0ull)
enum { KD_PAGE_RESIDENT = 1, KD_PAGE_DIRTY = 2, KD_PAGE_PINNED = 8,
       /* a transaction may have stored to it, resident or not */
       KD_PAGE_WRITER = 4,
       KD_PAGE_AWAY = 16,                      /* not resident; published from a spilled copy */
       /* with KD_INFO_USES: used since that was last asked, or since it came. The evictor sees no
        * use that has been told */
       KD_PAGE_USED = 32,
       /* it is called back, and was used when that was tried last; a load would ask */
       KD_PAGE_RECALLED = 64, KD_PAGE_CLOSED = 128 };
enum { KD_INFO_USES = 1 };
struct kd_space_info {
    uint64_t base, pages, cookie;
    uint32_t rights, flags;
    char name[KD_NAME_MAX];
};

/* ---- transactions ---- */
enum kd_mode { KD_SERIALISABLE, KD_SNAPSHOT, KD_DIRTY_READ, KD_CONTAINER_LOCK };
/* or-ed to the mode: all rights end with it, so that a stray load is noticed, at the price of
 * faults */
enum { KD_STRICT = 0x100 };
enum { KD_LOCKED_SHARED = 0x200 };             /* with KD_CONTAINER_LOCK: shared */
/* with KD_SERIALISABLE, in a stacked manager: a transaction that works for one whose KD_MSG_COMMIT
 * it has. Its KD_TXN_COMMIT joins that one, passes it on to the next lower manager, and returns
 * when the outcome of both is known. -ESRCH: that one is taken back */
enum { KD_HELPER = 0x400 };
/* with KD_SERIALISABLE. HOLDER: the view holds rights for another site, to the end of its handle.
 * The caller leaves it, and nobody enters it (-EBUSY); it gets rights as an heir alone, and gives
 * them up by KD_TXN_RELEASE. HEIR: what the transaction is given its holder is given, too, and what
 * that one has it takes before all others; its ticket may be any from its holder's on. -EOWNERDEAD,
 * also of touches: the holder has ended, or lost rights by force */
enum { KD_HOLDER = 0x800, KD_HEIR = 0x1000 };
struct kd_begin {
    uint32_t mode, weight;                     /* the lightest is a deadlock's victim */
    /* 0: a new one (returned here); a retry keeps its own */
    uint64_t ticket;
    /* an abort by the system jumps to `entry` with rsp = `stack` and rdi = the reason (a positive
     * errno) */
    uint64_t entry, stack;
    /* KD_CONTAINER_LOCK: an address in the container; KD_HELPER: the COMMIT's token; KD_HOLDER: 0,
     * or a handle of a badge + 1 */
    uint64_t locked;
    /* 0: none. The time is that of all waits together; a commit that its manager has received is
     * waited for all the same. KD_HOLDER: so long its rights outlive its process, until the
     * badge is ended at most */
    uint32_t timeout_ms, pages_max;
    uint64_t csn;                              /* out: a snapshot's commit point */
    union {                                    /* a handle + 1 */
        int32_t snapshot;                      /* KD_SNAPSHOT: 0, or of KD_SNAPSHOT_SHARE */
        int32_t port;                          /* KD_HOLDER: hears KD_MSG_WANTED */
        int32_t heir;                          /* KD_HEIR: the holder's view, of the same process */
    };
    uint32_t view;                             /* KD_HELPER: of the COMMIT; KD_HOLDER, out: it */
};
struct kd_commit {
    const void *batch;                         /* operations for the manager, copied */
    uint64_t batch_bytes;
    /* the manager that the batch is for; -1: whose objects were stored to. Two managers: -EXDEV.
     * KD_COMMIT_READ: -ENOTEMPTY, and the transaction goes on, if something was written */
    int32_t port;
    uint32_t flags;                            /* for the manager, as they are */
    uint64_t csn;                              /* out; 0 if nothing was written */
    uint64_t copies;                           /* out: pages logged */
};
enum { KD_COMMIT_READ = -2 };
struct kd_range { uint64_t address, bytes; };  /* at most KD_RANGES_MAX in a call */
/* EXCLUSIVE: as to write, but without a private copy. OPEN: all stores of the transaction are
 * meant, until SHUT; of no bytes. CHECK: -EIO: by the codewords of an object that has some, and of
 * pages in memory, not what was committed; -EINVAL: the bytes end behind the object */
/* NOW, with PREFETCH: -EBUSY instead of waiting for another transaction */
enum { KD_HINT_NOW = 16, KD_TAKE_MAX = 64 };
enum { KD_HINT_WRITE = 1, KD_HINT_PREFETCH = 2, KD_HINT_EXCLUSIVE = 3, KD_HINT_OPEN = 4,
       KD_HINT_SHUT = 5, KD_HINT_CHECK = 6, KD_RANGES_MAX = 1024 };
enum {
    /* pages that a read fault maps, and asks for, a power of 2 up to 64 (1: KD_PAGE_ALONE); 0: as
     * the touches before suggest (the default) */
    KD_POLICY_CLUSTER = 1,
    /* page faults after which a transaction locks it, if that is free; 0: never (the default) */
    KD_POLICY_ESCALATE = 2,
    /* pages of it in memory at a time; 0: any number (the default). At least KD_MEMORY_LEAST.
     * Private copies do not count */
    KD_POLICY_MEMORY = 3,
    KD_MEMORY_LEAST = 16,
};
enum {                                         /* a container lock: exclusive, or ... */
    KD_LOCK_SHARED = 1,                        /* others may read and lock it so, nobody writes */
    KD_LOCK_NOW = 2,                           /* -EBUSY instead of waiting */
};
/* KD_TXN_DIFF fills a buffer with what a committing view changed: kd_run, its bytes (padded to 8),
 * kd_run, ... A page whose base csn is below `full_below` comes whole as one run with KD_RUN_FULL.
 * KD_OBJECT_ENCODER says what is told of the others. */
enum { KD_RUN_FULL = 1, KD_RUN_LAST = 2 };     /* LAST: the last run of this page */
struct kd_run {
    uint64_t cookie, page, base_csn;           /* KD_CSN_ANY: newest in the log (items.md) */
    uint16_t offset, bytes;                    /* bytes 4096 for a whole page */
    uint32_t flags;
};
struct kd_diff {
    uint64_t view, token, full_below;
    /* 0 first, then what the last call left; ~0: all is told. Never splits a page; -EINVAL: it is
     * neither */
    uint64_t cursor;
    void *buffer;
    /* in: its size; out: used. Under one page: -EINVAL */
    uint64_t buffer_bytes;
    uint64_t pages;                            /* out: pages told so far in this call */
    uint64_t flags;
};
/* Whole pages, each copy once until KD_TXN_SPILLED; the cursor says only by ~0 that it was all. */
enum { KD_DIFF_SPILL = 1 };
/* Instead of changes: the batch of a view that helped, to the base alone; pages: its process.
 * -E2BIG: the buffer is too small; -EINVAL: it did not help, or the caller is not the base */
enum { KD_DIFF_BATCH = 2 };
struct kd_changes {
    uint64_t address;                          /* of the page */
    /* bit w % 64 of [w / 64]: word w differs from the committed version; all, where that is not
     * known (spilled) */
    uint64_t words[8];
};
struct kd_publish { uint64_t view, token, csn; };
/* What a COMMIT wants of a base, if others have parts of the transaction, too; in the flags' upper
 * half (store/parts.md). */
enum kd_part {
    KD_PART_ALL,                               /* it is the only one */
    KD_PART_VOTE,                              /* KD_TXN_VOTED or refuse */
    /* all others have voted: it commits, and keeps that it did for whoever asks; publish or refuse.
     * EIO: nobody knows which */
    KD_PART_DECIDE,
    KD_PART_COMMIT,                            /* it voted, and it is committed: publish */
    KD_PART_UNDO,                              /* ... it is undone: refuse */
    KD_PART_ASK,                               /* ... who decided is gone: find out; as these */
};
#define KD_PART_SHIFT 32
enum { KD_PARTS_MAX = 4 };
struct kd_voter {
    uint8_t name[16];                          /* of the base, the same over all its lives */
    uint64_t life;                             /* another number in each (KD_PORT_VOTES) */
};
struct kd_parts {
    uint64_t view, token;                      /* in */
    uint8_t id[16];                            /* of this attempt, another one each time */
    uint32_t part, count;
    uint8_t base[KD_PARTS_MAX][16];            /* names; the last one decides */
};
struct kd_view_info {
    uint64_t view, state, doom, ticket, weight, copies, snapshot_csn, waits[2];
    int32_t pid, tid;
    uint32_t mode, want;                       /* of the page; 0 to read, 1 to write, 2 both */
    /* in whose queue it stands: addresses, or 0; page: or for which it waits for a manager */
    uint64_t page, container;
    uint32_t item, item_mode;                  /* an entry of that; mode + 1, or 0: none */
    uint64_t locked, locked_count;             /* containers that it has locked: the first */
};

/* ---- disks ---- */
struct kd_block_info { uint64_t bytes; uint32_t sector_bytes, read_only; };
struct kd_page_io {
    int32_t object;
    /* out: CRC-32C of the page (init ~0, final xor ~0) */
    uint32_t crc;
    uint64_t page, offset_bytes;               /* where on the disk */
    /* on writing, in: only a version below it, else -EBUSY; 0: any. Out: the one written */
    uint64_t csn;
    int64_t status;                            /* out: 0 or -errno of this page */
};

#include "katydid/item.h"
#endif
