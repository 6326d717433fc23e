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

#define KD_PAGE_BYTES 4096u
#define KD_STORE_BASE 0x200000000000ull  /* top-level slots 64 to 191: 64 TiB for containers */
#define KD_STORE_END  0x600000000000ull
#define KD_WINDOW_BASE KD_STORE_END     /* slots 192 to 254: windows of each process */
#define KD_WINDOW_END 0x7f8000000000ull
#define KD_ZONE_BYTES 0x80000000000ull   /* 8 TiB: one store's share of the store region */
#define KD_VIEW_MAX   128
#define KD_NAME_MAX   64                 /* bytes of a name with its NUL */

/* Katydid's own calls: X(number, call, the kernel's function). The kernel's table, the names in
 * traces and the list of what tests must try are all made of this one. */
#define KD_CALLS(X) \
    /* ---- handles (process/handle.c): small numbers >= 0, each valid in its process only ---- */ \
    /* (handle). The last one that may receive from a port: the port dies */ \
    X(1000, KD_HANDLE_CLOSE, kd_handle_close) \
    /* (handle, rights): a copy with fewer rights. So are those that messages and KD_PROCESS_CREATE
     * pass on; a badge's needs KD_RIGHT_GRANT for that (-EACCES) */ \
    X(1001, KD_HANDLE_COPY, kd_handle_copy) \
    /* (object): every client's access ends; its epoch rises */ \
    X(1002, KD_OBJECT_REVOKE, kd_object_revoke) \
    /* ---- files (linux/linux_path.c) ---- */ \
    /* (path, fd, offset_bytes, bytes): a file whose bytes are that part of a file of the boot
     * module or the import disk; it takes the place of one that was made so. fd -1: a folder in
     * which only this call makes anything. By init alone */ \
    X(1005, KD_FILE_PART, kd_file_part) \
    /* ---- processes, the system (linux/process_call.c, look/) ---- */ \
    /* (struct kd_process_create *): handle of the new process */ \
    X(1010, KD_PROCESS_CREATE, kd_process_create) \
    /* (pid or -1, int *status, flags): pid of a child that ended */ \
    X(1011, KD_PROCESS_WAIT, kd_process_wait) \
    /* (pid, status); -EPERM unless it is in reach: of the caller's family (what fork made of one
     * program), below that, or by a handle of the process, or of the system's with
     * KD_RIGHT_PROCESSES. Never init */ \
    X(1012, KD_PROCESS_KILL, kd_process_kill) \
    /* (struct kd_process_info *, count): how many there are */ \
    X(1013, KD_PROCESS_LIST, kd_process_list) \
    /* (struct kd_system_info *) */ \
    X(1014, KD_SYSTEM_INFO, kd_system_info) \
    /* (status): power off; the status reaches the host. KD_RIGHT_HALT */ \
    X(1015, KD_HALT, kd_halt) \
    /* (text, bytes): a line into the kernel's log */ \
    X(1016, KD_KERNEL_LOG, kd_kernel_log) \
    /* (buffer, bytes): the kernel's command line, NUL-terminated */ \
    X(1017, KD_KERNEL_COMMAND_LINE, kd_kernel_command_line) \
    /* (): kcheck, walks the invariants; 0 or -EIO. KD_RIGHT_LOOK */ \
    X(1018, KD_CHECK, kd_check) \
    /* (KD_LOOK_*, pid, buffer, bytes): a text for people; its length. KD_RIGHT_LOOK, but for
     * processes in reach (KD_PROCESS_KILL) */ \
    X(1019, KD_LOOK, kd_look) \
    /* ---- messages (message/port.c, call.c) ---- */ \
    /* (0 or KD_PORT_TELLS): handle */ \
    X(1020, KD_PORT_CREATE, kd_port_create) \
    /* (port, struct kd_message *): waits for the reply. -ECANCELED: it is there, but the caller
     * serves a call itself, whose caller went away meanwhile; -EINTR: the same, and nobody had
     * received this one. -ELOOP: 16 calls in each other */ \
    X(1021, KD_PORT_CALL, kd_port_call) \
    /* (port, struct kd_message *, timeout_ms): -1 waits for ever, 0 polls */ \
    X(1022, KD_PORT_RECEIVE, kd_port_receive) \
    /* (token, struct kd_message *) */ \
    X(1023, KD_PORT_REPLY, kd_port_reply) \
    /* (token, struct kd_message *reply, port, struct kd_message *next) */ \
    X(1024, KD_PORT_REPLY_RECEIVE, kd_port_reply_receive) \
    /* (port, uint64_t bits): bits are or-ed until received; never waits */ \
    X(1025, KD_PORT_NOTIFY, kd_port_notify) \
    /* (name, port): publishes a port; gone with the port. KD_RIGHT_NAMES, and for the name of a
     * disk a handle of that disk */ \
    X(1026, KD_NAME_SET, kd_name_set) \
    /* (name): handle with the right to call. -EPERM: KD_PROCESS_CONFINED */ \
    X(1027, KD_NAME_FIND, kd_name_find) \
    /* (port, struct kd_message *, timeout_ms): KD_PORT_CALL, or -ETIMEDOUT: a later answer finds
     * nobody (-ESRCH) */ \
    X(1028, KD_PORT_CALL_UNTIL, kd_port_call_until) \
    /* (port, const int *ports, count): objects that commit at the port will be kept in objects of
     * these managers (1 to 4, which have objects): their commits go on to them (store/stack.md).
     * Before it has objects (-EBUSY), once. -EXDEV: they have no base in common, or too many stand
     * on each other; -ENOENT: no such manager */ \
    X(1029, KD_PORT_BELOW, kd_port_below) \
    /* (token): 0: a call to answer; -ECANCELED: as for KD_PORT_CALL; -ESRCH: nobody waits */ \
    X(1030, KD_CALL_STATE, kd_call_state) \
    /* ---- badges (message/badge.c): a number of the port's owner, for callers ---- */ \
    /* (port, number, rights): handle by which the port can be called (KD_PORT_CALL): its receiver
     * hears number and rights. KD_RIGHT_CALL and others of KD_RIGHTS_BADGE */ \
    X(1031, KD_BADGE_CREATE, kd_badge_create) \
    /* (port, number): the port's badges with this number; how many. Calls by them get -EIDRM, those
     * too that nobody has received */ \
    X(1032, KD_BADGE_END, kd_badge_end) \
    /* (port, handle, uint64_t out[2]): number and rights of a badge of this port. -EXDEV: of
     * another one; -EIDRM: it has ended */ \
    X(1033, KD_BADGE_READ, kd_badge_read) \
    /* (port): the port, published under the name of a disk that the caller has open, gets the
     * badges of dead ports of that name, as they are; how many. -EPERM: it is not */ \
    X(1034, KD_BADGE_INHERIT, kd_badge_inherit) \
    /* (port, number): how many badges with this number there are that have not ended */ \
    X(1035, KD_BADGE_USED, kd_badge_used) \
    /* (handle, handle): 0: calls by both, or by badges, come to one port; else -EXDEV */ \
    X(1036, KD_PORT_SAME, kd_port_same) \
    /* ---- memory objects (store/object.c, page.c): a handle of its manager's; copies of it with \
     * fewer rights, passed on, are for who maps the object itself ---- */ \
    /* (struct kd_object_create *): handle */ \
    X(1040, KD_OBJECT_CREATE, kd_object_create) \
    /* (object, only if unused: 0 or 1); its handle is closed. 1: -EBUSY while a client has it
     * attached, a transaction stores to it, or memory holds what its manager could not supply
     * again: pages that are not home, old versions */ \
    X(1041, KD_OBJECT_DESTROY, kd_object_destroy) \
    /* (process id, object, rights): a client may map it from now on; -EPERM unless it is calling
     * right now, or is a child, or has another one. With a handle without KD_RIGHT_MANAGE: the
     * caller itself, with rights that the handle has (-EACCES) */ \
    X(1042, KD_SPACE_ATTACH, kd_space_attach) \
    /* (process id, object): with the same handles */ \
    X(1043, KD_SPACE_DETACH, kd_space_detach) \
    /* (struct kd_supply *) */ \
    X(1044, KD_OBJECT_SUPPLY, kd_object_supply) \
    /* (object, page, count, error, number or 0): what was read of the pages is dropped, and faults
     * that wait for them get the error, 1 to 4095 (EINTR, ENXIO, ECANCELED: as EIO): all, or who
     * asked the question of that number (-ESRCH: nobody asks it any more), and then others ask
     * anew. EAGAIN: nobody is told, they wait on, and are answered later; with a number that looks
     * whether the question still stands */ \
    X(1045, KD_OBJECT_FAIL, kd_object_fail) \
    /* (object, page, count, to, uint64_t users[2] or 0): calls rights back, but for `to`, KD_READ
     * or 0; with KD_RECALL_DROP clean pages leave memory. How many pages are still used, and by
     * which views: newcomers ask; RECALLED comes when one of the object's users has ended, and
     * then they are to be called back again, until that says 0 */ \
    X(1046, KD_OBJECT_RECALL, kd_object_recall) \
    /* (object, page, count, uint8_t *bits, 0 or KD_INFO_USES): KD_PAGE_* of each page */ \
    X(1047, KD_OBJECT_INFO, kd_object_info) \
    /* (object, page, csn): home again; -ESTALE if a newer version exists. KD_CSN_ANY: nobody
     * wants the page any more, whichever it is */ \
    X(1048, KD_OBJECT_CLEANED, kd_object_cleaned) \
    /* (object, page, count, rights, number or 0): rights to pages that are in memory, KD_READ or
     * KD_READ | KD_WRITE: for all, or only for the touch that asked the question of that number
     * (-ESRCH: nobody asks it any more). 0, and any rights to a page that is away by now: none, but
     * who waits looks again, and asks by another number if it still lacks a right */ \
    X(1049, KD_OBJECT_GRANT, kd_object_grant) \
    /* (object, page, count, on): those that are in memory stay there; how many. -ENOMEM: no more
     * of them may */ \
    X(1050, KD_OBJECT_PIN, kd_object_pin) \
    /* (struct kd_page_name *, count): the caller's dirty pages that are to be cleaned first; how
     * many */ \
    X(1051, KD_CLEAN_LIST, kd_clean_list) \
    /* (object, KD_ENCODER_*): what KD_TXN_DIFF tells of its pages from now on. KD_ENCODER_RANGES:
     * -EBUSY while a transaction stores to it */ \
    X(1052, KD_OBJECT_ENCODER, kd_object_encoder) \
    /* (object, page, count, KD_ADVISE_*): of these pages; to how many in memory it applies. A
     * manager that knows better brings the others itself */ \
    X(1053, KD_OBJECT_ADVISE, kd_object_advise) \
    /* (object, page, buffer, uint64_t *csn): the page as it is, and which version that is, for a
     * manager that has it packed, say; then KD_OBJECT_CLEANED, -ESTALE where somebody stored to it
     * meanwhile. Own memory. -ENOENT: it is not in memory; -EBUSY: it is being written */ \
    X(1054, KD_OBJECT_READ, kd_object_read) \
    /* (object, page, count, struct kd_damage *): are the codewords of its pages in memory right?
     * -EUCLEAN: not of this one, the first. Looks at some hundred, and says where it ended */ \
    X(1055, KD_OBJECT_AUDIT, kd_object_audit) \
    /* (object, page, bytes, csn): what version csn, its current one, is: a damaged page is mended.
     * Transactions with a copy of it end with EIO. -ESTALE: it is another version, and csn is not
     * KD_CSN_ANY; -EBUSY: a transaction that stored to it is told, and not published; -ENOENT: it
     * is not in memory */ \
    X(1056, KD_OBJECT_MEND, kd_object_mend) \
    /* ---- transactions, client's side (store/view.c, begin.c, commit.c) ---- */ \
    /* (): handle; the calling thread owns it but does not enter it */ \
    X(1060, KD_VIEW_CREATE, kd_view_create) \
    /* (view or -1): leave the present view (suspend), enter this one */ \
    X(1061, KD_VIEW_ENTER, kd_view_enter) \
    /* (struct kd_begin *) in the view entered; -EFAULT also for one in a container */ \
    X(1062, KD_TXN_BEGIN, kd_txn_begin) \
    /* (struct kd_commit *) */ \
    X(1063, KD_TXN_COMMIT, kd_txn_commit) \
    /* (reason): returns 0 here, does not go to the entry */ \
    X(1064, KD_TXN_ABORT, kd_txn_abort) \
    /* (address, bytes, KD_HINT_*) */ \
    X(1065, KD_TXN_HINT, kd_txn_hint) \
    /* (const struct kd_range *, count): the running transaction means its stores to these bytes, of
     * an object in item mode (whole words) or with KD_ENCODER_RANGES; -EINVAL: no such bytes */ \
    X(1075, KD_TXN_DECLARE, kd_txn_declare) \
    /* (struct kd_view_stats *): sums over the process */ \
    X(1066, KD_VIEW_STATS, kd_view_stats) \
    /* (address, struct kd_space_info *): what lies there */ \
    X(1067, KD_CONTAINER_INFO, kd_container_info) \
    /* (address, KD_LOCK_*): locks the container there until the end */ \
    X(1068, KD_TXN_LOCK, kd_txn_lock) \
    /* (): handle of the running snapshot's commit point; -ESTALE */ \
    X(1069, KD_SNAPSHOT_SHARE, kd_snapshot_share) \
    /* (address, KD_POLICY_*, value): of the container there; who may write it */ \
    X(1070, KD_CONTAINER_POLICY, kd_container_policy) \
    /* (address, struct kd_changes *, 0 or 1): the first page from there on that the running
     * transaction changed; 1: or read (or one before it, by a right it kept); -ENOENT: none */ \
    X(1071, KD_TXN_CHANGES, kd_txn_changes) \
    /* (view, address, pages, to: KD_READ or 0): gives rights up before the transaction's end, but
     * for pages that it stored to: how many those are. For who holds rights for others */ \
    X(1074, KD_TXN_RELEASE, kd_txn_release) \
    /* ---- locks of items (store/item_lock.c); katydid/item.h ---- */ \
    X(1076, KD_ITEM_MAP, kd_item_map) \
    X(1077, KD_ITEM_LOCK, kd_item_lock) \
    X(1078, KD_ITEM_WAKE, kd_item_wake) \
    /* ---- windows (store/mapping.c): pages of a container at a further address ---- */ \
    /* (address, pages, KD_RIGHT_READ and perhaps KD_RIGHT_WRITE, place): shows the pages from an
     * address on, which lie in one attached object or one window of the caller's, at the place, an
     * address from KD_WINDOW_BASE on; 0: any. The place. -ENOENT: nothing lies there; -EINVAL: not
     * so many pages; -EACCES: more than may be done there; -EEXIST: a window lies at the place;
     * -EMFILE: it has 32 windows; -ENOMEM */ \
    X(1072, KD_MAP, kd_map) \
    /* (place): the window there ends; -ENOENT */ \
    X(1073, KD_UNMAP, kd_unmap) \
    /* ---- transactions, manager's side (store/commit.c, spill.c) ---- */ \
    /* (struct kd_diff *): into own memory */ \
    X(1080, KD_TXN_DIFF, kd_txn_diff) \
    /* (struct kd_publish *, count): one step for snapshots */ \
    X(1081, KD_TXN_PUBLISH, kd_txn_publish) \
    /* (view, token, error) */ \
    X(1082, KD_TXN_REFUSE, kd_txn_refuse) \
    /* (struct kd_view_info *, count): how many */ \
    X(1083, KD_VIEW_LIST, kd_view_list) \
    /* (view, error) */ \
    X(1084, KD_VIEW_ABORT, kd_view_abort) \
    /* (view, const uint64_t mask[2]): waits-for edges of the manager's own, for a view of a
     * client's, whether it stores or reads */ \
    X(1085, KD_VIEW_WAIT, kd_view_wait) \
    /* (port, count): private copies that may be made of its objects; at most KD_CREDITS_CLOSED:
     * and none of their pages is cleaned any more */ \
    X(1086, KD_CREDIT_GRANT, kd_credit_grant) \
    /* (view, token, n, done): the first n copies that KD_TXN_DIFF told with KD_DIFF_SPILL lie in
     * the log; their frames and credits are gone. done: answers KD_MSG_SPILL. How many there
     * still were */ \
    X(1087, KD_TXN_SPILLED, kd_txn_spilled) \
    /* (view, token, bytes): answers KD_MSG_UNSPILL with the page; own memory */ \
    X(1088, KD_TXN_UNSPILL, kd_txn_unspill) \
    /* ---- disks (block_io/block_call.c) ---- */ \
    /* (name, struct kd_block_info *): exclusive; -ENODEV, -EBUSY. KD_RIGHT_DISKS */ \
    X(1100, KD_BLOCK_OPEN, kd_block_open) \
    /* (disk, offset_bytes, buffer, bytes): own memory */ \
    X(1101, KD_BLOCK_READ, kd_block_read) \
    /* (disk, offset_bytes, buffer, bytes): complete on return, not durable */ \
    X(1102, KD_BLOCK_WRITE, kd_block_write) \
    /* (disk) */ \
    X(1103, KD_BLOCK_FLUSH, kd_block_flush) \
    /* (disk, struct kd_page_io *, count): straight into object frames */ \
    X(1104, KD_BLOCK_READ_PAGES, kd_block_read_pages) \
    /* (disk, struct kd_page_io *, count): from pinned current versions */ \
    X(1105, KD_BLOCK_WRITE_PAGES, kd_block_write_pages) \
    /* ---- streams (stream/streams.md) ---- */ \
    /* (name, port, bits): exclusive; KD_MSG_NOTIFY with these bits to the port whenever more can
     * be read or written, or the other end comes or goes. -ENODEV, -EBUSY. KD_RIGHT_DISKS */ \
    X(1106, KD_STREAM_OPEN, kd_stream_open) \
    /* (stream, buffer, bytes): how many, at least 1; never waits. -EAGAIN: none yet, -ENOTCONN:
     * nobody is at the other end, -ECONNRESET, once: there was, and what was under way is gone */ \
    X(1107, KD_STREAM_READ, kd_stream_read) \
    /* (stream, buffer, bytes): how many were taken, at most 4096; never waits. Errors as above */ \
    X(1108, KD_STREAM_WRITE, kd_stream_write) \
    /* ---- traces (look/trace_call.c) ---- */ \
    /* (enum kd_trace_what, ...): katydid/trace.h */ \
    X(1110, KD_TRACE, kd_trace)

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
    /* cookie, page, count, access, view + 1 or 0, object handle, number: supply or fail. Only the
     * first page is waited for; the others are likely to be wanted next. KD_PAGE_ALONE with the
     * access: no neighbours, touches are random. KD_PAGE_HERE: it is in memory; grant the right, or
     * fail */
    KD_MSG_PAGE,
    /* notice: cookie; one has ended that used what is called back (KD_PAGE_RECALLED); or nobody
     * asks any more what a PAGE of that object asked (its time is up, it is killed, it aborts): who
     * keeps questions looks which (KD_OBJECT_FAIL with EAGAIN) */
    KD_MSG_RECALLED,
    /* view, copies, spilled copies, kd_commit.flags, views that helped it (a mask: low, high), told
     * by KD_TXN_DIFF with the same token, bytes of their batches (KD_DIFF_BATCH), 1 if the view
     * itself stored to no object of this manager; data: the batch; process; token: publish or
     * refuse (a stacked manager: KD_HELPER or refuse) */
    KD_MSG_COMMIT,
    KD_MSG_CONFLICT,    /* notice: cookie, page, requesting view, blocking mask low, high */
    KD_MSG_VIEW_GONE,   /* notice: views whose transactions have ended (a mask: low, high) */
    KD_MSG_CLEAN,       /* notice: frames are wanted; word[0] pages */
    KD_MSG_CREDIT_LOW,  /* notice */
    KD_MSG_CLIENT_GONE, /* notice: process */
    KD_MSG_NOTIFY,      /* notice: word[0] the bits of KD_PORT_NOTIFY */
    KD_MSG_SPILL,       /* view, copies, wanted; process; token: KD_TXN_SPILLED or refuse */
    KD_MSG_UNSPILL,     /* view, cookie, page; process; token: KD_TXN_UNSPILL or refuse */
};

/* ---- memory objects ---- */
enum { KD_READ = 1, KD_WRITE = 2 };            /* access; also rights of pages */
enum { KD_PAGE_ALONE = 4, KD_PAGE_HERE = 8 };
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
     * (-EUCLEAN) and before what changed there is told (KD_TXN_DIFF: -EIO). With KD_OBJECT_ITEMS
     * only */
    KD_OBJECT_CODEWORDS = 128,
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
struct kd_begin {
    uint32_t mode, weight;                     /* the lightest is a deadlock's victim */
    /* 0: a new one (returned here); a retry keeps its own */
    uint64_t ticket;
    /* an abort by the system jumps to `entry` with rsp = `stack` and rdi = the reason (a positive
     * errno) */
    uint64_t entry, stack;
    /* KD_CONTAINER_LOCK: an address in the container; KD_HELPER: the COMMIT's token */
    uint64_t locked;
    /* 0: none. The time is that of all waits together; a commit that its manager has received is
     * waited for all the same */
    uint32_t timeout_ms, pages_max;
    uint64_t csn;                              /* out: a snapshot's commit point */
    /* KD_SNAPSHOT: 0, or a handle of KD_SNAPSHOT_SHARE + 1 */
    int32_t snapshot;
    uint32_t view;                             /* KD_HELPER: of the COMMIT */
};
struct kd_commit {
    const void *batch;                         /* operations for the manager, copied */
    uint64_t batch_bytes;
    /* the manager that the batch is for; -1: whose objects were stored to. Two managers: -EXDEV */
    int32_t port;
    uint32_t flags;                            /* for the manager, as they are */
    uint64_t csn;                              /* out; 0 if nothing was written */
    uint64_t copies;                           /* out: pages logged */
};
struct kd_range { uint64_t address, bytes; };  /* at most KD_RANGES_MAX in a call */
/* EXCLUSIVE: as to write, but without a private copy. OPEN: all stores of the transaction are
 * meant, until SHUT; of no bytes. CHECK: -EIO: by the codewords of an object that has some, and of
 * pages in memory, not what was committed */
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
struct kd_view_info {
    uint64_t view, state, doom, ticket, weight, copies, snapshot_csn, waits[2];
    int32_t pid, tid;
    uint32_t mode, want;                       /* of the page; 0 to read, 1 to write, 2 both */
    uint64_t page, container;                  /* in whose queue it stands: addresses, or 0 */
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
