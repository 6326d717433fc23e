/* values.c - bad lengths, counts, flags and structures. */
#include "calls.h"

/* wanted: 0 for any errno. */
struct value_case { const char *name; long number; unsigned long a[6]; long wanted; };

static void values_try(const struct value_case *cases, int count, const char *what)
{
    int good = 1;
    for (const struct value_case *c = cases; c < cases + count; c++) {
        long r = try_call(c->number, c->a);
        int fits = c->wanted ? r == c->wanted : is_errno(r);
        if (!fits)
            printf("# %s(%lx, %lx, %lx, %lx): %ld, wanted %ld\n", c->name, c->a[0], c->a[1],
                   c->a[2], c->a[3], r, c->wanted);
        good &= fits;
    }
    tap_ok(good, "%s: %d bad values", what, count);
}

void katydid_values(void)
{
    const unsigned long huge = 1ul << 63, big = 1ul << 31, all = ~0ul, o = G(my_object),
                        r = G(room);
    const struct value_case cases[] = {
        {NAMED(KD_HANDLE_COPY), {G(my_port), 0}, -EINVAL},
        {NAMED(KD_PROCESS_WAIT), {all, 0, 2}, -EINVAL},
        {NAMED(KD_PROCESS_WAIT), {all, 0, all}, -EINVAL},
        {NAMED(KD_PROCESS_WAIT), {0, 0, 0}, -ECHILD},
        {NAMED(KD_PROCESS_WAIT), {big, 0, 0}, -ECHILD},
        {NAMED(KD_PROCESS_KILL), {0, 1}, -ESRCH},
        {NAMED(KD_PROCESS_KILL), {all, 1}, -ESRCH},
        {NAMED(KD_PROCESS_KILL), {big, 1}, -ESRCH},
        {NAMED(KD_PROCESS_KILL), {1, 1}, -EPERM},
        {"kill", SYS_kill, {1, 9}, -EPERM},
        {"tgkill", SYS_tgkill, {1, 1, 9}, -EPERM},
        {"tkill", SYS_tkill, {1, 9}, -ESRCH},
        {NAMED(KD_HALT), {0}, -EPERM},
        {NAMED(KD_KERNEL_COMMAND_LINE), {r, 0}, -ERANGE},
        {NAMED(KD_PORT_CREATE), {2}, -EINVAL},
        {NAMED(KD_PORT_BELOW), {G(my_port), r, 0}, -EINVAL},
        {NAMED(KD_PORT_BELOW), {G(my_port), r, 5}, -EINVAL},
        {NAMED(KD_PORT_BELOW), {G(my_port), r, all}, -EINVAL},
        {NAMED(KD_BADGE_CREATE), {G(my_port), 1, 0}, -EINVAL},
        {NAMED(KD_BADGE_CREATE), {G(my_port), 1, all}, -EINVAL},
        {NAMED(KD_BADGE_CREATE), {G(my_port), 1, KD_RIGHT_CALL | KD_RIGHT_MANAGE}, -EINVAL},
        {NAMED(KD_BADGE_CREATE), {G(my_port), 1, 1ul << 32 | KD_RIGHT_CALL}, -EINVAL},
        {NAMED(KD_BADGE_INHERIT), {G(my_port)}, -EPERM},
        {NAMED(KD_CALL_STATE), {0}, -ESRCH},
        {NAMED(KD_CALL_STATE), {all}, -ESRCH},
        {NAMED(KD_CALL_STATE), {huge | 1}, -ESRCH},
        {NAMED(KD_PORT_REPLY), {0, G(&message)}, -ESRCH},
        {NAMED(KD_PORT_REPLY), {all, G(&message)}, -ESRCH},
        {NAMED(KD_PORT_REPLY), {huge | 1, G(&message)}, -ESRCH},
        {NAMED(KD_PORT_RECEIVE), {G(my_port), G(&message), 0}, -EAGAIN},
        {NAMED(KD_NAME_SET), {G(""), G(my_port)}, -EINVAL},
        {NAMED(KD_NAME_SET), {G("store"), G(my_port)}, -EPERM},
        {NAMED(KD_NAME_FIND), {G("")}, -EINVAL},
        {NAMED(KD_NAME_FIND), {G("no-such")}, -ENOENT},
        {NAMED(KD_NAME_FIND), {G(read_only)}, 0},
        {NAMED(KD_SPACE_ATTACH), {0, o, 3}, -ESRCH},
        {NAMED(KD_SPACE_ATTACH), {all, o, 3}, -ESRCH},
        {NAMED(KD_SPACE_ATTACH), {G(getpid()), o, 0}, -EINVAL},
        {NAMED(KD_SPACE_ATTACH), {G(getpid()), o, 4}, -EINVAL},
        {NAMED(KD_SPACE_ATTACH), {G(getpid()), o, all}, -EINVAL},
        {NAMED(KD_SPACE_DETACH), {1, o}, -ENOENT},
        {NAMED(KD_SPACE_RIGHTS), {0, o}, -ESRCH},
        {NAMED(KD_SPACE_RIGHTS), {all, o}, -ESRCH},
        {NAMED(KD_OBJECT_FAIL), {o, 0, 0, 5}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, 8, 1, 5}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, 1, all, 5}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, all, 2, 5}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, 0, 1, 0}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, 0, 1, 4096}, -EINVAL},
        {NAMED(KD_OBJECT_FAIL), {o, 0, 1, big}, -EINVAL},
        {NAMED(KD_OBJECT_RECALL), {o, 0, 9, 0}, -EINVAL},
        {NAMED(KD_OBJECT_RECALL), {o, huge, huge, 0}, -EINVAL},
        {NAMED(KD_OBJECT_INFO), {o, 0, huge, r}, -EINVAL},
        {NAMED(KD_OBJECT_PIN), {o, 7, 2, 1}, -EINVAL},
        {NAMED(KD_OBJECT_CLEANED), {o, 8, 1}, -EINVAL},
        {NAMED(KD_OBJECT_READ), {o, 8, r, r}, -ENOENT},
        {NAMED(KD_OBJECT_READ), {o, 0, my_base, r}, -EINVAL},
        {NAMED(KD_OBJECT_AUDIT), {o, 0, huge, r}, -EINVAL},
        {NAMED(KD_OBJECT_AUDIT), {o, 0, 1, r}, -EINVAL},
        {NAMED(KD_OBJECT_MEND), {o, all, r, 0}, -EINVAL},
        {NAMED(KD_OBJECT_MEND), {o, 0, r, 0}, -EINVAL},
        {NAMED(KD_OBJECT_RECALL), {o, 0, 1, 2}, -EINVAL},
        {NAMED(KD_OBJECT_RECALL), {o, 0, 1, 8}, -EINVAL},
        {NAMED(KD_OBJECT_RECALL), {o, 0, 1, huge}, -EINVAL},
        {NAMED(KD_OBJECT_GRANT), {o, 0, 9, 1}, -EINVAL},
        {NAMED(KD_OBJECT_GRANT), {o, 0, 1, 2}, -EINVAL},
        {NAMED(KD_OBJECT_GRANT), {o, 0, 1, 4}, -EINVAL},
        {NAMED(KD_OBJECT_GRANT), {o, 0, 1, huge}, -EINVAL},
        {NAMED(KD_OBJECT_GRANT), {o, 0, 1, 1, all}, -ESRCH},
        {NAMED(KD_TXN_RELEASE), {all, my_base, 1, 0}, -EBADF},
        {NAMED(KD_TXN_TAKE), {all, my_base, 1, KD_READ, 0}, -EBADF},
        {NAMED(KD_TXN_BEGIN), {r}, -ENOENT},
        {NAMED(KD_TXN_COMMIT), {r}, -ENOENT},
        {NAMED(KD_TXN_ABORT), {all}, -ENOENT},
        {NAMED(KD_TXN_HINT), {my_base, 8, 1}, -ENOENT},
        {NAMED(KD_TXN_DECLARE), {r, 1}, -ENOENT},
        {NAMED(KD_TXN_LOCK), {my_base, 0}, -ENOENT},
        {NAMED(KD_TXN_CHANGES), {0, r}, -ENOENT},
        {NAMED(KD_CONTAINER_INFO), {0, r}, -ENOENT},
        {NAMED(KD_CONTAINER_INFO), {all, r}, -ENOENT},
        {NAMED(KD_TXN_PUBLISH), {r, 0}, -EINVAL},
        {NAMED(KD_TXN_PUBLISH), {r, 129}, -EINVAL},
        {NAMED(KD_TXN_PUBLISH), {r, all}, -EINVAL},
        {NAMED(KD_TXN_PUBLISH), {r, 1}, 0},
        {NAMED(KD_SNAPSHOT_SHARE), {0}, -ENOENT},
        {NAMED(KD_SNAPSHOT_SHARE), {r}, -EBADF},
        {NAMED(KD_CONTAINER_POLICY), {0, KD_POLICY_CLUSTER, 1}, -ENOENT},
        {NAMED(KD_CONTAINER_POLICY), {all, KD_POLICY_CLUSTER, 1}, -ENOENT},
        {NAMED(KD_CONTAINER_POLICY), {my_base, 0, 1}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, all, 1}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, KD_POLICY_CLUSTER, 3}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, KD_POLICY_CLUSTER, 128}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, KD_POLICY_CLUSTER, huge}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, KD_POLICY_ESCALATE, all}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, KD_POLICY_ITEMS, 4096}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, KD_POLICY_ITEMS, all}, -EINVAL},
        {NAMED(KD_CONTAINER_POLICY), {my_base, KD_POLICY_OWN, all}, -EINVAL},
        {NAMED(KD_ITEM_MAP), {my_base, r}, -EINVAL},
        {NAMED(KD_ITEM_MAP), {0, r}, -ENOENT},
        {NAMED(KD_ITEM_MAP), {all, all}, -ENOENT},
        {NAMED(KD_ITEM_LOCK), {my_base, 0, 0}, -ENOENT},
        {NAMED(KD_ITEM_LOCK), {my_base, 0, KD_ITEM_MODES}, -EINVAL},
        {NAMED(KD_ITEM_LOCK), {my_base, 0, all}, -EINVAL},
        {NAMED(KD_ITEM_WAKE), {my_base, all}, -ENOENT},
        {NAMED(KD_MAP), {my_base, 0, 1, 0}, -EINVAL},
        {NAMED(KD_MAP), {my_base, 9, 1, 0}, -EINVAL},
        {NAMED(KD_MAP), {my_base, all, 1, 0}, -EINVAL},
        {NAMED(KD_MAP), {my_base, 1, all, 0}, -EINVAL},
        {NAMED(KD_MAP), {my_base, 1, 1, all}, -EINVAL},
        {NAMED(KD_MAP), {my_base, 1, 1, my_base}, -EINVAL},
        {NAMED(KD_MAP), {my_base, 1, 1, KD_WINDOW_END}, -EINVAL},
        {NAMED(KD_MAP), {0, 1, 1, 0}, -ENOENT},
        {NAMED(KD_MAP), {KD_WINDOW_BASE, 1, 1, 0}, -ENOENT},
        {NAMED(KD_MAP), {huge, 1, 1, 0}, -ENOENT},
        {NAMED(KD_UNMAP), {0}, -ENOENT},
        {NAMED(KD_UNMAP), {my_base}, -ENOENT},
        {NAMED(KD_UNMAP), {all}, -ENOENT},
        {NAMED(KD_OBJECT_ENCODER), {o, KD_ENCODER_ADAPTIVE + 1}, -EINVAL},
        {NAMED(KD_OBJECT_ENCODER), {o, all}, -EINVAL},
        {NAMED(KD_TXN_SPILLED), {0, 0, 1, 1}, -ESRCH},
        {NAMED(KD_TXN_SPILLED), {128, 0, all, 1}, -ESRCH},
        {NAMED(KD_TXN_SPILLED), {all, all, all, 1}, -ESRCH},
        {NAMED(KD_TXN_BATCH), {my_port, r, 8}, -ENOENT},
        {NAMED(KD_TXN_BATCH), {all, all, all}, -ENOENT},
        {NAMED(KD_TXN_PARTS), {r}, -ESRCH},
        {NAMED(KD_TXN_VOTED), {0, 0}, -ESRCH},
        {NAMED(KD_TXN_VOTED), {128, 0}, -ESRCH},
        {NAMED(KD_TXN_VOTED), {all, all}, -ESRCH},
        {NAMED(KD_TXN_UNSPILL), {0, 0, r}, -ESRCH},
        {NAMED(KD_TXN_UNSPILL), {all, all, r}, -ESRCH},
        {NAMED(KD_TXN_UNSPILL), {0, 0, my_base}, -EINVAL},
        {NAMED(KD_TXN_REFUSE), {0, 0, 5}, -ESRCH},
        {NAMED(KD_TXN_REFUSE), {all, 0, 5}, -ESRCH},
        {NAMED(KD_TXN_REFUSE), {128, 0, 5}, -ESRCH},
        {NAMED(KD_VIEW_ABORT), {128, 5}, -EINVAL},
        {NAMED(KD_VIEW_ABORT), {all, 5}, -EINVAL},
        {NAMED(KD_VIEW_ABORT), {0, 0}, -EINVAL},
        {NAMED(KD_VIEW_ABORT), {0, 4096}, -EINVAL},
        {NAMED(KD_VIEW_ABORT), {127, 5}, 0},
        {NAMED(KD_VIEW_WAIT), {128, r}, -EINVAL},
        {NAMED(KD_VIEW_WAIT), {127, r}, -ESRCH},
        {NAMED(KD_CREDIT_GRANT), {G(my_port), all}, -EINVAL},
        {NAMED(KD_CREDIT_GRANT), {G(my_port), huge}, -EINVAL},
        {NAMED(KD_FILE_PART), {G("/bin/sh"), all}, -EPERM},
        {NAMED(KD_BLOCK_OPEN), {G("store"), r}, -EBUSY},
        {NAMED(KD_BLOCK_OPEN), {G("export"), r}, -EBUSY},
        {NAMED(KD_BLOCK_OPEN), {G("nothing"), r}, -ENODEV},
        {NAMED(KD_BLOCK_OPEN), {G(""), r}, -ENODEV},
        {NAMED(KD_BLOCK_READ), {G(disk), 1, r, 512}, -EINVAL},
        {NAMED(KD_BLOCK_READ), {G(disk), 0, r, 511}, -EINVAL},
        {NAMED(KD_BLOCK_READ), {G(disk), huge, r, 512}, -EINVAL},
        {NAMED(KD_BLOCK_READ), {G(disk), 0, r, huge}, -EINVAL},
        {NAMED(KD_BLOCK_READ), {G(disk), all - 511, r, 512}, -EINVAL},
        {NAMED(KD_BLOCK_READ), {G(disk), 0, r, 128ul << 20}, -EFAULT},
        {NAMED(KD_BLOCK_READ), {G(disk), 0, my_base, 4096}, -EINVAL},
        {NAMED(KD_BLOCK_WRITE), {G(disk), 512, r, all - 511}, -EINVAL},
        {NAMED(KD_BLOCK_WRITE), {G(disk), 0, r, all - 511}, -EINVAL},
        {NAMED(KD_BLOCK_READ_PAGES), {G(disk), r, 257}, -EINVAL},
        {NAMED(KD_BLOCK_READ_PAGES), {G(disk), r, all}, -EINVAL},
        {NAMED(KD_BLOCK_WRITE_PAGES), {G(disk), r, huge}, -EINVAL},
        {"no call", 1003, {1, 2, 3}, -ENOSYS}, {"no call", 1009, {1, 2, 3}, -ENOSYS},
        {"no call", 1039, {1, 2, 3}, -ENOSYS}, {"no call", 1109, {1, 2, 3}, -ENOSYS},
        {"no call", 999, {1, 2, 3}, -ENOSYS}, {"no call", 320, {1, 2, 3}, -ENOSYS},
        {"no call", 100000, {1, 2, 3}, -ENOSYS}, {"no call", -1, {1, 2, 3}, -ENOSYS},
        {"no call", (long)(1ul << 63), {1}, -ENOSYS}, {"no call", 0x100000001, {1}, -ENOSYS},
    };
    memset(room, 0, sizeof room);
    memset(&message, 0, sizeof message);
    values_try(cases, COUNT(cases), "Katydid's calls");
}

/* Structures with one bad field: made whole, spoilt, tried; `fits` says what the result is to
 * be. */
#define TRY(what, whole, call, fits, ...)                                                          \
    do {                                                                                          \
        whole;                                                                                    \
        __VA_ARGS__;                                                                              \
        long result = call;                                                                       \
        good &= (fits) || (printf("# " what " %s: %ld\n", #__VA_ARGS__, result), 0);              \
    } while (0)

#define OBJECT(...)                                                                     \
    TRY("object", struct kd_object_create c = OBJECT_WHOLE, CALL(KD_OBJECT_CREATE, &c), \
        is_errno(result), __VA_ARGS__)
#define OBJECT_WHOLE {.port = my_port, .commit_port = my_port, .pages = 1}
void object_structures(void)
{
    int good = 1;
    OBJECT(c.flags = 16);               /* no locks, and no transactions */
    OBJECT(c.flags = 32);
    OBJECT(c.flags = ~0u);
    OBJECT(c.pages = 0);
    OBJECT(c.pages = ~0ull);
    OBJECT(c.pages = 1ull << 63);
    OBJECT(c.pages = 1ull << 34, c.base = 0);
    OBJECT(c.base = 4096);
    OBJECT(c.base = KD_STORE_BASE + 1);
    OBJECT(c.base = KD_STORE_END);
    OBJECT(c.base = KD_STORE_END - 4096, c.pages = 2);
    OBJECT(c.base = 0xffffffff80000000);
    OBJECT(c.base = ~0ull - 4095);
    OBJECT(c.port = -1);
    OBJECT(c.commit_port = 256);
    OBJECT(c.port = my_object);
    tap_ok(good, "object_create");
}

#define SUPPLY(...)                                                                                \
    TRY("supply", struct kd_supply s = SUPPLY_WHOLE, CALL(KD_OBJECT_SUPPLY, &s), is_errno(result), \
        __VA_ARGS__)
#define SUPPLY_WHOLE {.object = my_object, .rights = 1, .count = 1}
void supply_structures(void)
{
    int good = 1;
    SUPPLY(s.object = -1);
    SUPPLY(s.object = my_port);
    SUPPLY(s.source = 3);
    SUPPLY(s.source = ~0u);
    SUPPLY(s.source = KD_SUPPLY_READ);
    SUPPLY(s.rights = 4);
    SUPPLY(s.rights = 2);
    SUPPLY(s.count = 0);
    SUPPLY(s.count = 9);
    SUPPLY(s.count = ~0ull, s.page = 1);
    SUPPLY(s.page = 8);
    SUPPLY(s.page = ~0ull, s.count = 2);
    tap_ok(good, "object_supply");
}

#define CREATE(...)                                                                        \
    TRY("process", struct kd_process_create c = CREATE_WHOLE, CALL(KD_PROCESS_CREATE, &c), \
        is_errno(result), __VA_ARGS__)
#define CREATE_WHOLE {.path = self, .argv = argv, .fds = {-1, -1, -1}}
void process_structures(const char *self)
{
    const char *argv[] = {self, "nothing", NULL};
    int good = 1;
    CREATE(c.flags = KD_PROCESS_FLAGS + 1);
    CREATE(c.flags = ~0u);
    CREATE(c.handle_count = 9);
    CREATE(c.handle_count = ~0u);
    CREATE(c.handle_count = 1, c.handles[0] = -1);
    CREATE(c.handle_count = 1, c.handles[0] = 256);
    CREATE(c.handle_count = 1, c.handles[0] = view);
    CREATE(c.handle_count = 1, c.handles[0] = disk);
    CREATE(c.handle_count = 2, c.handles[0] = my_port, c.handles[1] = 200);
    CREATE(c.fds[1] = -2);
    CREATE(c.fds[2] = 64);
    CREATE(c.fds[0] = 63);
    CREATE(c.path = "");
    CREATE(c.path = "/");
    CREATE(c.path = "/tmp/no-such");
    static char *many[2000];
    for (int i = 0; i < 1999; i++) many[i] = "x";
    CREATE(c.argv = (const char *const *)many);
    static char text[70000];
    memset(text, 'x', sizeof text - 1);
    CREATE(c.path = text);
    CREATE(many[0] = text, many[2] = NULL, c.argv = (const char *const *)many);
    tap_ok(good, "process_create");
}

#define SEND(wanted, ...)                                                        \
    TRY("call", struct kd_message m = SEND_WHOLE, CALL(KD_PORT_CALL, store, &m), \
        result == (wanted), __VA_ARGS__)
#define SEND_WHOLE {.kind = STORE_HELLO, .handle = -1}
void message_structures(void)
{
    int good = 1;
    SEND(-EPROTONOSUPPORT, m.kind = STORE_HELLO);
    SEND(-EINVAL, m.kind = 0x80000001);
    SEND(-EINVAL, m.kind = ~0u);
    SEND(-E2BIG, m.data = room, m.data_bytes = KD_DATA_MAX + 1);
    SEND(-E2BIG, m.data = room, m.data_bytes = ~0ull);
    SEND(-E2BIG, m.data = room, m.data_bytes = 1ull << 63);
    SEND(-EMSGSIZE, m.data = room, m.data_bytes = 4096);
    SEND(-EMSGSIZE, m.kind = STORE_STATS, m.buffer = room, m.buffer_bytes = 8);
    SEND(-EPROTONOSUPPORT, m.handle = 255, m.handle_rights = 4);
    SEND(-EPROTONOSUPPORT, m.handle = view, m.handle_rights = ~0u);
    SEND(-EPROTONOSUPPORT, m.handle = copy, m.handle_rights = KD_RIGHT_RECEIVE);
    tap_ok(good, "messages");
}

#define BEGIN(wanted, ...)                                                                   \
    TRY("begin", struct kd_begin b = { ABORTS }, CALL(KD_TXN_BEGIN, &b), result == (wanted), \
        __VA_ARGS__)
static int begin_structures(void)
{
    int good = 1;
    BEGIN(-EINVAL, b.mode = 4);
    BEGIN(-EINVAL, b.mode = ~0u);
    BEGIN(-ENOENT, b.mode = KD_CONTAINER_LOCK; b.locked = 4096);
    BEGIN(-EINVAL, b.mode = KD_SERIALISABLE | KD_LOCKED_SHARED);
    BEGIN(-EINVAL, b.ticket = 1ull << 62);
    BEGIN(-EINVAL, b.ticket = ~0ull);
    BEGIN(-EBADF, b.mode = KD_HOLDER);
    BEGIN(-EBADF, b.mode = KD_HOLDER; b.port = view + 1);
    BEGIN(-EBADF, b.mode = KD_HOLDER; b.port = INT32_MIN);
    BEGIN(-EINVAL, b.mode = KD_HOLDER | KD_CONTAINER_LOCK);
    BEGIN(-EINVAL, b.mode = KD_HOLDER | KD_HEIR);
    BEGIN(-EBADF, b.mode = KD_HEIR);
    BEGIN(-EBADF, b.mode = KD_HEIR; b.heir = INT32_MAX);
    BEGIN(-EINVAL, b.mode = KD_HEIR; b.heir = view + 1);
    BEGIN(-EINVAL, b.mode = KD_HEIR; b.ticket = ~0ull);
    BEGIN(-EINVAL, b.mode = KD_HEIR | KD_HELPER);
    BEGIN(0, b.mode = KD_SERIALISABLE);
    BEGIN(-EALREADY, b.mode = KD_SERIALISABLE);
    good &=
        CALL(KD_TXN_HINT, my_base, 0, 1) == -EINVAL && CALL(KD_TXN_HINT, my_base, 8, 0) == -EINVAL;
    good &= CALL(KD_TXN_HINT, my_base, 8, 3) == -EINVAL &&
            CALL(KD_TXN_HINT, my_base, ~0ul, 1) == -EINVAL;
    good &= is_errno(CALL(KD_TXN_HINT, 4096, 1ul << 40, 2));
    good &= is_errno(CALL(KD_TXN_HINT, 0x3f0000000000, 1ul << 40, 2));
    good &= CALL(KD_ITEM_LOCK, my_base, 0, KD_ITEM_X) == -EINVAL &&
            CALL(KD_ITEM_LOCK, 4096, 0, KD_ITEM_X) == -ENOENT &&
            CALL(KD_ITEM_LOCK, ~0ul, ~0ul, KD_ITEM_X | KD_ITEM_NOW) == -ENOENT &&
            CALL(KD_ITEM_WAKE, my_base, 0) == -EINVAL && CALL(KD_ITEM_WAKE, ~0ul, 0) == -ENOENT;
    struct kd_range ranges[] = {{my_base, 8}, {my_base, 0}, {my_base, ~0ul}, {~0ul, 8}};
    good &= CALL(KD_TXN_DECLARE, ranges, 1) == 0 &&
            CALL(KD_TXN_DECLARE, ranges, KD_RANGES_MAX + 1) == -EINVAL &&
            CALL(KD_TXN_DECLARE, ranges, ~0ul) == -EINVAL;
    for (int i = 1; i < 4; i++)
        good &= CALL(KD_TXN_DECLARE, ranges + i, 1) == -EINVAL;
    good &= CALL(KD_TXN_DECLARE, 1, 1) == -EFAULT && CALL(KD_TXN_DECLARE, ~15ul, 1) == -EFAULT;
    return good;
}

/* In a transaction that runs. */
static int commit_structures(void)
{
    int good = 1;
    struct kd_commit k = {.batch = room, .batch_bytes = KD_DATA_MAX + 1, .port = store};
    good &= CALL(KD_TXN_COMMIT, &k) == -E2BIG;
    BEGIN(0, b.mode = KD_SERIALISABLE);
    k = (struct kd_commit){.batch = room, .batch_bytes = 64, .port = 255};
    good &= CALL(KD_TXN_COMMIT, &k) == -EBADF;
    BEGIN(0, b.mode = KD_SERIALISABLE);
    k = (struct kd_commit){.batch = room, .batch_bytes = 64, .port = copy};
    good &= CALL(KD_TXN_COMMIT, &k) == -EINVAL; /* no manager of transactions */
    int gone = (int)CALL(KD_PORT_CREATE, 0);
    k.port = (int)CALL(KD_HANDLE_COPY, gone, KD_RIGHT_CALL);
    CALL(KD_HANDLE_CLOSE, gone);
    BEGIN(0, b.mode = KD_SERIALISABLE);
    good &= CALL(KD_TXN_COMMIT, &k) == -EOWNERDEAD; /* a manager that is no more */
    CALL(KD_HANDLE_CLOSE, k.port);
    return good;
}

void transaction_structures(void)
{
    CALL(KD_VIEW_ENTER, view);
    int good = begin_structures() & commit_structures();
    CALL(KD_VIEW_ENTER, -1);
    tap_ok(good, "transactions");
}

void linux_values(void)
{
    const unsigned long huge = 1ul << 63, all = ~0ul, r = G(room), f = G(file), big = 1ul << 47;
    /* the second part is bad */
    const unsigned long vectors[2][4] = {{r, 8, r, all}, {r, 8, r, big}};
    const struct value_case cases[] = {
        { "read", SYS_read, { all, r, 8 }, -EBADF },
        { "read", SYS_read, { 64, r, 8 }, -EBADF },
        { "write", SYS_write, { 1ul << 31, r, 8 }, -EBADF },
        { "read", SYS_read, { G(folder), r, 8 }, -EISDIR },
        { "write", SYS_write, { f, all - 99, all }, -EFAULT },
        { "write", SYS_write, { f, G(writable_end), huge }, -EFAULT },
        { "read", SYS_read, { f, r, all }, -EFAULT },
        { "read", SYS_read, { f, r, huge }, -EFAULT },
        { "read", SYS_read, { f, r, big }, -EFAULT },
        { "write", SYS_write, { f, r, huge }, -EFAULT },
        { "pread", SYS_pread64, { f, r, all, 0 }, -EFAULT },
        { "pwrite", SYS_pwrite64, { f, r, huge, 0 }, -EFAULT },
        { "writev", SYS_writev, { f, G(vectors[0]), 2 }, -EINVAL },
        { "writev", SYS_writev, { f, G(vectors[1]), 2 }, -EFAULT },
        { "readv", SYS_readv, { f, G(vectors[0]), 2 }, -EINVAL },
        { "pread", SYS_pread64, { f, r, 8, all }, -EINVAL },
        { "pwrite", SYS_pwrite64, { f, r, 8, huge }, -EINVAL },
        { "pwrite", SYS_pwrite64, { f, r, 8, huge - 1 }, -EFBIG },
        { "pwrite", SYS_pwrite64, { f, r, 8, 1ul << 40 }, -EFBIG },
        { "readv", SYS_readv, { f, r, all }, -EINVAL },
        { "writev", SYS_writev, { f, r, 1025 }, -EINVAL },
        { "lseek", SYS_lseek, { f, all, 0 }, -EINVAL },
        { "lseek", SYS_lseek, { f, huge - 1, 1 }, 0 },
        { "lseek", SYS_lseek, { f, 0, 3 }, -EINVAL },
        { "lseek", SYS_lseek, { f, 0, all }, -EINVAL },
        { "lseek", SYS_lseek, { G(ends[0]), 0, 0 }, -ESPIPE },
        { "ftruncate", SYS_ftruncate, { f, all }, -EINVAL },
        { "ftruncate", SYS_ftruncate, { f, 1ul << 50 }, -EFBIG },
        { "ftruncate", SYS_ftruncate, { G(folder), 0 }, -EINVAL },
        { "close", SYS_close, { all }, -EBADF },
        { "close", SYS_close, { 63 }, -EBADF },
        { "fstat", SYS_fstat, { 63, r }, -EBADF },
        { "dup", SYS_dup, { 63 }, -EBADF },
        { "dup2", SYS_dup2, { f, 64 }, -EBADF },
        { "dup2", SYS_dup2, { f, all }, -EBADF },
        { "dup3", SYS_dup3, { f, f, 0 }, -EINVAL },
        { "dup3", SYS_dup3, { f, 40, 1 }, -EINVAL },
        { "fcntl", SYS_fcntl, { f, 0, 64 }, 0 },
        { "fcntl", SYS_fcntl, { f, 0, all }, 0 },
        { "fcntl", SYS_fcntl, { f, 999, 0 }, -EINVAL },
        { "fcntl", SYS_fcntl, { 63, 1, 0 }, -EBADF },
        { "ioctl", SYS_ioctl, { f, 0x5401, 0 }, -ENOTTY },
        { "ioctl", SYS_ioctl, { 63, 1, 0 }, -EBADF },
        { "fsync", SYS_fsync, { 63 }, -EBADF },
        { "getdents64", SYS_getdents64, { f, r, 99 }, -ENOTDIR },
        { "getdents64", SYS_getdents64, { G(folder), r, 1 }, -EINVAL },
        { "open", SYS_open, { G(here), 3 }, -EINVAL },
        { "open", SYS_open, { G(""), 0 }, -ENOENT },
        { "open", SYS_open, { G(here), O_CREAT | O_EXCL | O_RDWR }, -EEXIST },
        { "open", SYS_open, { G("/tmp"), O_WRONLY }, -EISDIR },
        { "open", SYS_open, { G("/bin/sh"), O_RDWR }, -EROFS },
        { "open", SYS_open, { G("/tmp/hostile/x"), O_RDONLY }, -ENOTDIR },
        { "openat", SYS_openat, { 63, G("x"), 0 }, -EBADF },
        { "openat", SYS_openat, { f, G("x"), 0 }, 0 },
        { "mkdir", SYS_mkdir, { G("/tmp/..") }, 0 },
        { "mkdir", SYS_mkdir, { G("/") }, 0 },
        { "mkdir", SYS_mkdir, { G("/bin/x") }, -EROFS },
        { "rmdir", SYS_rmdir, { G("/tmp") }, 0 },
        { "rmdir", SYS_rmdir, { G("/") }, 0 },
        { "unlink", SYS_unlink, { G("/tmp") }, 0 },
        { "unlink", SYS_unlink, { G("/bin/sh") }, -EROFS },
        { "unlink", SYS_unlink, { G("/") }, 0 },
        { "rename", SYS_rename, { G("/tmp"), G("/tmp/a") }, 0 },
        { "rename", SYS_rename, { G(here), G("/bin/x") }, -EROFS },
        { "chdir", SYS_chdir, { G(here) }, -ENOTDIR },
        { "fchdir", SYS_fchdir, { f }, -ENOTDIR },
        { "fchdir", SYS_fchdir, { 63 }, -EBADF },
        { "getcwd", SYS_getcwd, { r, 0 }, -ERANGE },
        { "getcwd", SYS_getcwd, { r, 1 }, -ERANGE },
        { "mmap", SYS_mmap, { 0, 0, 3, 0x22, all, 0 }, -EINVAL },
        { "mmap", SYS_mmap, { 0, all, 3, 0x22, all, 0 }, -ENOMEM },
        { "mmap", SYS_mmap, { 0, huge, 3, 0x22, all, 0 }, -ENOMEM },
        { "mmap", SYS_mmap, { 0, big, 3, 0x22, all, 0 }, -ENOMEM },
        { "mmap", SYS_mmap, { 0, 4096, 7, 0x22, all, 0 }, -EACCES },
        { "mmap", SYS_mmap, { 1, 4096, 3, 0x32, all, 0 }, -EINVAL },
        { "mmap", SYS_mmap, { 0, 4096, 3, 0x32, all, 0 }, 0 },
        { "mmap", SYS_mmap, { KD_STORE_BASE, 4096, 3, 0x32, all, 0 }, -ENOMEM },
        { "mmap", SYS_mmap, { 0xffffffff80000000, 4096, 3, 0x32, all, 0 }, -ENOMEM },
        { "mmap", SYS_mmap, { 0x7fffe00000, huge, 3, 0x32, all, 0 }, -ENOMEM },
        { "mmap", SYS_mmap, { 0, 4096, 3, 2, 63, 0 }, -EBADF },
        { "mmap", SYS_mmap, { 0, 4096, 3, 2, f, 1 }, -EINVAL },
        { "mmap", SYS_mmap, { 0, 4096, 3, 1, f, 0 }, -ENODEV },
        { "mmap", SYS_mmap, { 0, 4096, 1, 2, G(folder), 0 }, -ENODEV },
        { "munmap", SYS_munmap, { r + 1, 4096 }, -EINVAL },
        { "munmap", SYS_munmap, { r, 0 }, -EINVAL },
        { "munmap", SYS_munmap, { r, all }, -EINVAL },
        { "munmap", SYS_munmap, { r, huge }, -EINVAL },
        { "mprotect", SYS_mprotect, { r, 4096, 7 }, -EACCES },
        { "mprotect", SYS_mprotect, { r, 4096, 8 }, -EINVAL },
        { "mprotect", SYS_mprotect, { r + 8, 4096, 3 }, -EINVAL },
        { "mprotect", SYS_mprotect, { r, all, 3 }, 0 },
        { "mprotect", SYS_mprotect, { r, big, 3 }, 0 },
        { "mprotect", SYS_mprotect, { KD_STORE_BASE, 4096, 3 }, 0 },
        { "mremap", SYS_mremap, { r, 4096, 8192, 1 }, -ENOMEM },
        { "mremap", SYS_mremap, { r, 4096, huge, 1 }, -ENOMEM },
        { "madvise", SYS_madvise, { r + 1, 4096, 4 }, -EINVAL },
        { "madvise", SYS_madvise, { r, all, 4 }, -EINVAL },
        { "madvise", SYS_madvise, { r + 1, 4096, 23 }, -EINVAL },
        { "madvise", SYS_madvise, { r, all, 23 }, -EINVAL },
        { "madvise", SYS_madvise, { KD_STORE_BASE, 4096, 4 }, -EINVAL },
        { "clone", SYS_clone, { 0x111, r }, -ENOSYS },
        { "clone", SYS_clone, { 0x10011, r }, -ENOSYS },
        { "clone", SYS_clone, { 0x10d00, 0 }, -ENOSYS },
        { "clone", SYS_clone, { ~0x100ul, r }, -ENOSYS },
        { "clone", SYS_clone, { 0x110d00, r, 8 }, -EFAULT },
        { "clone", SYS_clone, { 0x1010d00, r, 0, 0xffffffff80000000 }, -EFAULT },
        { "arch_prctl", SYS_arch_prctl, { 0x1002, huge }, -EPERM },
        { "arch_prctl", SYS_arch_prctl, { 0x1002, 0xffffffff80000000 }, -EPERM },
        { "arch_prctl", SYS_arch_prctl, { 0x1001, r }, -EINVAL },
        { "rt_sigaction", SYS_rt_sigaction, { 0, r, 0 }, -EINVAL },
        { "rt_sigaction", SYS_rt_sigaction, { 65, r, 0 }, -EINVAL },
        { "kill", SYS_kill, { G(getpid()), 65 }, -EINVAL },
        { "kill", SYS_kill, { all, 9 }, -EPERM },
        { "kill", SYS_kill, { G(getpid()), all }, -EINVAL },
        { "tkill", SYS_tkill, { all, 9 }, -EINVAL },
        { "tkill", SYS_tkill, { G(getpid()), 99 }, -EINVAL },
        { "nanosleep", SYS_nanosleep, { G(&(struct timespec){ -1, 0 }) }, -EINVAL },
        { "nanosleep", SYS_nanosleep, { G(&(struct timespec){ 0, 1000000000 }) }, -EINVAL },
        { "nanosleep", SYS_nanosleep, { G(&(struct timespec){ 0, -1 }) }, -EINVAL },
        { "clock_gettime", SYS_clock_gettime, { 99, r }, -EINVAL },
        { "clock_gettime", SYS_clock_gettime, { all, r }, -EINVAL },
        { "clock_nanosleep", SYS_clock_nanosleep, { 99, 0, G(&moment) }, -EINVAL },
        { "getrlimit", SYS_getrlimit, { 16, r }, -EINVAL },
        { "getrlimit", SYS_getrlimit, { all, r }, -EINVAL },
        { "prlimit64", SYS_prlimit64, { 1, 3, 0, r }, -EPERM },
        { "prlimit64", SYS_prlimit64, { 0, 3, r, 0 }, -EPERM },
        { "prlimit64", SYS_prlimit64, { all, 7, 0, r }, -ESRCH },
        { "prlimit64", SYS_prlimit64, { 0, KD_RLIMIT + KD_LIMITS, 0, r }, -EINVAL },
        { "prlimit64", SYS_prlimit64, { 0, KD_RLIMIT - 1, 0, r }, -EINVAL },
        { NAMED(KD_OBJECT_ADVISE), { G(my_object), 0, 1, KD_ADVISE_FREED + 1 }, -EINVAL },
        { NAMED(KD_OBJECT_ADVISE), { G(my_object), 0, huge, KD_ADVISE_DONT_NEED }, -EINVAL },
        { NAMED(KD_OBJECT_ADVISE), { G(my_port), 0, 1, 4 }, -EBADF },
        { "sched_getaffinity", SYS_sched_getaffinity, { 0, 7, r }, -EINVAL },
        { "futex", SYS_futex, { r + 1, FUTEX_WAIT, 0, G(&moment) }, -EINVAL },
        { "futex", SYS_futex, { r, 77, 0, 0 }, -ENOSYS },
        { "futex", SYS_futex, { r, FUTEX_WAIT_BITSET, 0, G(&moment), 0, 0 }, -EINVAL },
        { "futex", SYS_futex, { r, FUTEX_REQUEUE, 0, 0, 3 }, -EINVAL },
        { "futex", SYS_futex, { my_base, FUTEX_WAIT, 0, G(&moment) }, -EFAULT },
        { "pipe2", SYS_pipe2, { r, all }, -EINVAL },
        { "execve", SYS_execve, { G("/none"), 0, 0 }, -ENOENT },
        { "execve", SYS_execve, { 1, 0, 0 }, -EFAULT },
        { "execve", SYS_execve, { G("/bin/sh"), 1, 0 }, -EFAULT },
        { "execve", SYS_execve, { G("/bin/sh"), 0, 1 }, -EFAULT },
        { "execve", SYS_execve, { G("/etc"), 0, 0 }, -EACCES },
        { "wait4", SYS_wait4, { all, 0, 0, 0 }, -ECHILD },
        { "wait4", SYS_wait4, { all, 0, 16, 0 }, -EINVAL },
        { "rt_sigsuspend", SYS_rt_sigsuspend, { 1, 8 }, -EFAULT },
        { "rt_sigsuspend", SYS_rt_sigsuspend, { r, 9 }, -EINVAL },
        { "rt_sigaction", SYS_rt_sigaction, { SIGUSR1, 1, 0, 8 }, -EFAULT },
        { "rt_sigaction", SYS_rt_sigaction, { SIGKILL, r, 0, 8 }, -EINVAL },
        { "rt_sigaction", SYS_rt_sigaction, { 65, 0, 0, 8 }, -EINVAL },
        { "kill", SYS_kill, { 1 << 30, 9 }, -ESRCH },
        { "kill", SYS_kill, { 1, 9 }, -EPERM },
        { "socket", SYS_socket, { 1, 1, 0 }, -ENOSYS },
        { "iopl", SYS_iopl, { 3 }, -ENOSYS },
        { "modify_ldt", SYS_modify_ldt, { 1, r, 16 }, -ENOSYS },
        { "reboot", SYS_reboot, { 1, 2, 3 }, -ENOSYS },
    };
    memset(room, 0, sizeof room);
    values_try(cases, COUNT(cases), "Linux's calls");
    is(ftruncate(file, 8192), 0, "the file is cut again");
}

void disk_opened(void)
{
    int good = CALL(KD_HANDLE_CLOSE, disk) == 0;
    for (int i = 0; i < BAD_POINTERS; i++) {
        long r = CALL(KD_BLOCK_OPEN, "export", bad_pointers[i]);
        if (r != -EFAULT) good = 0, printf("# block_open, 0x%lx: %ld\n", bad_pointers[i], r);
    }
    disk = (int)CALL(KD_BLOCK_OPEN, "export", room);
    tap_ok(good && disk >= 0, "block_open: what it is to tell goes nowhere");
}

void none_forgotten(void)
{
#define ENTRY(number, call, function) {NAMED(call)},
    static const struct { const char *name; long number; } calls[] = {KD_CALLS(ENTRY)};
    int good = CALL(KD_CLEAN_LIST, 1, ~0ul) == 0;
    for (int i = 0; i < COUNT(calls); i++) {
        long n = calls[i].number;
        if (tried_call[n] || n == KD_PORT_CREATE || n == KD_VIEW_CREATE || n == KD_CHECK ||
            n == KD_CLEAN_LIST)
            continue;
        good = 0;
        printf("# %s has no line in the tables\n", calls[i].name);
    }
    tap_ok(good, "%d calls of Katydid's, and none is forgotten", COUNT(calls));
}
