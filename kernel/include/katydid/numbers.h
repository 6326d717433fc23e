/*
 * katydid/numbers.h - Katydid's own system calls: number, name, the kernel's function; abi.h
 * includes it and has the structures that they speak of.
 */
#ifndef KATYDID_NUMBERS_H
#define KATYDID_NUMBERS_H

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
    /* (port, const struct kd_voter *, doubts): a base's commit port, which is published: its \
     * commits may be parts of transactions that other such bases have a part of, too (KD_PART_*). \
     * So many (at most 65,535) have voted here of which others may know more than this base: \
     * until there are none, snapshots of its objects do not begin. 0; 1: some wait for that. \
     * -EPERM: it is not published; -EINVAL: it stands on others, too many; -EBUSY: it has another \
     * name */ \
    X(1037, KD_PORT_VOTES, kd_port_votes) \
    /* (port): number of the process that receives there; -EOWNERDEAD */ \
    X(1038, KD_PORT_OWNER, kd_port_owner) \
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
     * caller itself, with rights that the handle has (-EACCES). -EINPROGRESS: what it has there of
     * a dead manager is going: ask again; for itself the caller waits */ \
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
    /* (process id, object): which rights it has there by KD_SPACE_ATTACH; 0: it is not attached. \
     * -ESRCH. The handle has KD_RIGHT_MANAGE */ \
    X(1057, KD_SPACE_RIGHTS, kd_space_rights) \
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
    /* (port, const void *batch, bytes): what the commit tells another manager than that of its own
     * batch; once for each. -EXDEV: they do not vote (KD_PORT_VOTES); -EEXIST; -E2BIG; -ENOMEM */ \
    X(1079, KD_TXN_BATCH, kd_txn_batch) \
    /* (struct kd_view_stats *): sums over the process */ \
    X(1066, KD_VIEW_STATS, kd_view_stats) \
    /* (address, struct kd_space_info *): what lies there */ \
    X(1067, KD_CONTAINER_INFO, kd_container_info) \
    /* (address, KD_LOCK_*): locks the container there until the end */ \
    X(1068, KD_TXN_LOCK, kd_txn_lock) \
    /* (0): handle of the running snapshot's commit point; -ESTALE; -EAGAIN: too many. (such a
     * handle + 1): 1 if others have it, or a snapshot sees that point, else 0 */ \
    X(1069, KD_SNAPSHOT_SHARE, kd_snapshot_share) \
    /* (address, KD_POLICY_*, value): of the container there; who may write it */ \
    X(1070, KD_CONTAINER_POLICY, kd_container_policy) \
    /* (address, struct kd_changes *, bits): the first page from there on that the running
     * transaction changed; 1: or read (or one before it, by a right it kept); 2: its address
     * alone; -ENOENT: none */ \
    X(1071, KD_TXN_CHANGES, kd_txn_changes) \
    /* (view, address, pages, to: KD_READ or 0): gives rights up before the transaction's end, but
     * for pages that it stored to, or that others have for whom it holds them: how many those
     * are */ \
    X(1074, KD_TXN_RELEASE, kd_txn_release) \
    /* (view, address, pages, KD_READ and perhaps KD_WRITE, memory or 0): a holder of the caller's
     * gets rights to pages, from the first one on up to one that is not free, and the caller their
     * contents. Waits for nobody. How many; -EINVAL: more than KD_TAKE_MAX, or no such pages */ \
    X(1059, KD_TXN_TAKE, kd_txn_take) \
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
    /* (struct kd_publish *, count, csn or 0): one step for snapshots; and no page is supplied any
     * more in a version older than one that was published up to csn (SP4) */ \
    X(1081, KD_TXN_PUBLISH, kd_txn_publish) \
    /* (view, token, error) */ \
    X(1082, KD_TXN_REFUSE, kd_txn_refuse) \
    /* (struct kd_view_info *, count): how many */ \
    X(1083, KD_VIEW_LIST, kd_view_list) \
    /* (view, error): of a client's, or of the caller's own, or that waits for its holder */ \
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
    /* (struct kd_parts *): which other bases a COMMIT has, that says KD_PART_* */ \
    X(1089, KD_TXN_PARTS, kd_txn_parts) \
    /* (view, token): answers a COMMIT with KD_PART_VOTE: whatever happens, it can be committed and
     * undone from now on */ \
    X(1090, KD_TXN_VOTED, kd_txn_voted) \
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

#endif
