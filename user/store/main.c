/*
 * main.c - the store manager starts: disk, recovery, port, threads.
 *
 * A blank disk is formatted. Anything else that is not a sound store of our version is refused
 * with a message that says what to do, and is not written to.
 */
#include "copy.h"
#include "group.h"
#include "options.h"
#include "path.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BUSY_TRIES 50           /* the disk of a manager that died is drained meanwhile */

struct server server = {
    .name = "store",
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .work = PTHREAD_COND_INITIALIZER,
};

void say(const char *format, ...)
{
    char line[256];
    va_list arguments;
    int n = snprintf(line, sizeof(line), "%s: ", server.name);
    va_start(arguments, format);
    n += vsnprintf(line + n, sizeof(line) - (size_t)n, format, arguments);
    va_end(arguments);
    if (n >= (int)sizeof(line)) n = sizeof(line) - 1;
    KD2(KD_KERNEL_LOG, line, n);
}

void server_fence(const char *what, int error)
{
    if (server.fenced) return;
    server.fenced = -EIO;
    /* Nobody is to wait for a credit that no checkpoint will free, nor for a page to be cleaned:
     * the commit says what is wrong. */
    kd_credit_grant(server.commit_port, KD_CREDITS_CLOSED);
    pthread_cond_broadcast(&server.changed);
    watch_all_change();
    copy_fenced();
    server_unlock();
    say("%s (%s). No more commits are taken; whether the last ones are durable is "
        "unknown. To recover what is: `kill -9 %d`, and init starts the manager again; or halt.",
        what, strerror(error < 0 ? -error : error), getpid());
    server_lock();
}

int server_writable(void)
{
    if (server.read_only) return -EROFS;
    return server.fenced || store_error(server.store) ? -EIO : 0;
}

/* ---- the disk ---- */

/* disk_name names disk i, from 0, of a store over several: "store", "store.2" ... */
static const char *disk_name(uint32_t i)
{
    static char name[KD_NAME_MAX];
    snprintf(name, sizeof(name), i ? "%s.%u" : "%s", server.name, i + 1);
    return name;
}

/* disk_take opens a disk: its handle, and size; -ENODEV: there is none. */
static long disk_take(const char *name, uint64_t *bytes)
{
    struct kd_block_info info;
    long disk;
    for (int i = 0; (disk = KD2(KD_BLOCK_OPEN, name, &info)) == -EBUSY && i < BUSY_TRIES; i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    if (disk >= 0) *bytes = info.bytes & ~(uint64_t)(PAGE_BYTES - 1);
    return disk;
}

static void span_refused(const struct span_report *report)
{
    char which[KD_NAME_MAX + 16] = "", number[64] = "";
    if (report->given != SPAN_MISSING)
        snprintf(which, sizeof(which), "disk \"%s\" ", disk_name(report->given));
    if (report->number && report->of)
        snprintf(number, sizeof(number), *which ? "(%u of %u) " : "disk %u of %u ", report->number,
                 report->of);
    say("refused: %s%s%s", which, number, report->message);
}

/* disk_open puts all disks with names of this store's together. */
static bool disk_open(struct disk_io *io)
{
    int handles[SPAN_DISKS_MAX];
    uint64_t bytes[SPAN_DISKS_MAX];
    uint32_t count = 0;
    struct span_report report;
    long disk = 0;
    while (count < SPAN_DISKS_MAX && (disk = disk_take(disk_name(count), &bytes[count])) >= 0)
        handles[count++] = (int)disk;
    if (disk < 0 && disk != -ENODEV)
        say(disk == -EBUSY ? "the store disk is served already"
                           : "the store disk cannot be opened: %s", strerror((int)-disk));
    else if (!count)
        say("no store disk: nothing can be kept. Attach one (scripts/run --store FILE)");
    if (!count || (disk < 0 && disk != -ENODEV)) return false;
    if (disks_join(handles, bytes, count, &report) < 0) {
        span_refused(&report);
        return false;
    }
    *io = server.disk;
    return true;
}

/* powers_keep gives up all powers but these. Once the disk is open it needs none over other disks,
 * and none at all once its names are published: what a hostile disk or client could make of it has
 * its own disk only. */
static void powers_keep(uint32_t rights)
{
    static int system = KD_SYSTEM_HANDLE;
    long left = rights ? KD2(KD_HANDLE_COPY, system, rights) : -1;
    if (system >= 0) KD1(KD_HANDLE_CLOSE, system);
    system = (int)left;
}

/* uuid_make makes one that differs for every store that was ever made. */
static void uuid_make(uint8_t uuid[16])
{
    struct timespec now;
    const uint8_t *random = (const void *)getauxval(AT_RANDOM);
    memset(uuid, 0, 16);
    if (random) memcpy(uuid, random, 16);
    uint8_t more[16];
    if (getrandom(more, sizeof(more), 0) == sizeof(more))
        for (int i = 0; i < 16; i++) uuid[i] ^= more[i];
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < 8; i++) uuid[i] ^= (uint8_t)((uint64_t)now.tv_nsec >> 8 * i);
    for (int i = 0; i < 8; i++) uuid[8 + i] ^= (uint8_t)((uint64_t)now.tv_sec >> 8 * i);
    uuid[6] = (uuid[6] & 0x0f) | 0x40;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
}

int disk_format(const struct disk_io *io, uint64_t group_bytes)
{
    if (options.zone == ZONE_ASK) _exit(STORE_EXIT_ZONE);
    struct store_options made = {.log_bytes = options.log_bytes,
                                 .extent_bytes = options.extent_bytes,
                                 .zone = options.zone, .group_bytes = group_bytes};
    uuid_make(made.uuid);
    int r = store_format(io, &disk_memory, &made);
    if (r == 0)
        say("blank disk of %llu MiB formatted", (unsigned long long)(io->bytes >> 20));
    else if (r == -ENOMEM)
        say("the blank disk is left blank: a store of %llu MiB needs %llu MiB of memory when it is "
            "open; start "
            "with more (--memory), or with a smaller disk",
            (unsigned long long)(io->bytes >> 20),
            (unsigned long long)(store_memory(io, &made) >> 20));
    else
        say("the blank disk cannot be formatted: %s%s", strerror(-r),
            r == -ENOSPC
                ? "; it is too small: `rm` it and let scripts/run make one, or use --store-size"
                : "");
    return r;
}

/* ---- the store ---- */

static const char *advice(int error)
{
    switch (error) {
    case -EMEDIUMTYPE: return "this disk holds something that is no store; give another disk, or "
                              "make this one blank if nothing on it is wanted";
    case -EPROTONOSUPPORT: return "this store was made by a newer Katydid; start that one";
    case -EOPNOTSUPP:
        return "this store is of an older format; copy the disk, then `kstore upgrade` it on "
               "the host, or start with store.upgrade=yes on the kernel's command line";
    case -EUCLEAN:
        return "this store is damaged; copy the disk, `kstore check` it on the host, and "
               "`kstore salvage` what is sound into a new store";
    case -ENOMEM: return "there is not enough memory; start with more (--memory)";
    case -EIO: return "the disk does not read or write";
    default: return "it cannot be opened";
    }
}

void report_say(const struct store_report *report)
{
    const char *note = report->torn_tail          ? "; a torn last group was cut off"
                       : report->older_checkpoint ? "; from the older checkpoint"
                                                  : "";
    char what[96];
    if (report->was_clean)
        snprintf(what, sizeof(what), "clean");
    else if (report->transactions == 0)
        snprintf(what, sizeof(what), "nothing to recover");
    else
        snprintf(what, sizeof(what), "recovered %llu transactions, %llu pages",
                 (unsigned long long)report->transactions, (unsigned long long)report->pages);
    say("%s, log %llu to %llu%s, in %llu ms; CRC by %s", what,
        (unsigned long long)report->redo_lsn, (unsigned long long)report->end_lsn, note,
        (unsigned long long)(report->microseconds / 1000), crc32c_chosen());
    if (report->version && report->version < store_format_version)
        say("it was of format %u, and is of format %u now", report->version, store_format_version);
    if (report->lost) say("containers that are volatile, or are to be rebuilt, are empty");
    if (report->grown)
        say("the disk has grown, and the store with it");
    else if (report->grow_error)
        say("the disk has grown, the store has not (%s): it goes on as it was; `kstore grow` on "
            "the host", strerror(-report->grow_error));
}

/* cost_say says what the start has cost up to the first answer; `scripts/bench store` reads it. */
static void cost_say(void)
{
    struct timespec cpu = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    say("started with %llu us of computing, %llu reads, %llu writes, %llu flushes",
        (unsigned long long)cpu.tv_sec * 1000000 + (unsigned long long)cpu.tv_nsec / 1000,
        (unsigned long long)device_reads, (unsigned long long)device_writes,
        (unsigned long long)device_flushes);
}

/* part_of_memory: the largest transaction is what half of the log takes (the library sees to that),
 * or an eighth of the memory: two buffers of that size are held. */
static uint64_t part_of_memory(void)
{
    struct kd_system_info info = {0};
    return KD1(KD_SYSTEM_INFO, &info) == 0 ? info.memory_bytes / 8 : 1ull << 22;
}

/* open_to_read opens a damaged store, as far as its log is sound: nothing is written to it. */
static int open_to_read(const struct disk_io *io, struct store_open_options *how,
                        struct store_report *report)
{
    const char *what = report->message ? report->message : "damaged";
    how->flags = STORE_READ_ONLY;
    int r = store_open(io, &disk_memory, how, &server.store, report);
    if (r < 0) return r;
    server.read_only = true;
    say("DAMAGED: %s", what);
    say("what is sound (log to %llu) is open for reading only, and nothing is written. Copy the "
        "disk first; "
        "then, on the host, `kstore check` it and `kstore salvage` it into a new store",
        (unsigned long long)report->end_lsn);
    return 0;
}

static struct store_open_options open_how(void)
{
    uint64_t part = part_of_memory();
    return (struct store_open_options){ .clock = &disk_clock,
                                        .group_bytes = options.group_bytes ? options.group_bytes
                                                                           : part,
                                        .image_pages = (uint32_t)(part / PAGE_BYTES * 15 / 16) };
}

/* copy_start starts a copy, of which a group has to go into a frame. */
static bool copy_start(const struct disk_io *io, unsigned grace_ms)
{
    struct store_open_options how = open_how();
    if (how.group_bytes > COPY_GROUP_MOST) how.group_bytes = COPY_GROUP_MOST;
    return copy_run(io, &how, grace_ms);
}

static bool store_start(const struct disk_io *io)
{
    struct store_open_options how = open_how();
    uint64_t group_bytes = how.group_bytes;
    struct store_report report;
    how.flags = STORE_GROW | (options.upgrade ? STORE_UPGRADE : 0);
    int r = store_open(io, &disk_memory, &how, &server.store, &report);
    if (r == -ENODATA && disk_format(io, group_bytes) == 0)
        r = store_open(io, &disk_memory, &how, &server.store, &report);
    if (r == 0) {
        report_say(&report);
        return true;
    }
    if ((r == -EUCLEAN || r == -EIO) && open_to_read(io, &how, &report) == 0) return true;
    if (r == -EUCLEAN && report.cut_bytes)
        say("refused: the disk has %llu KiB, the store on it %llu KiB: its end is cut off. Restore "
            "a copy; or `kstore salvage` on the host saves what is there into a new store",
            (unsigned long long)io->bytes >> 10, (unsigned long long)report.cut_bytes >> 10);
    else if (r != -ENODATA)
        say("refused: %s (%s)", advice(r), report.message ? report.message : strerror(-r));
    return false;
}

/* ---- ports and threads ---- */

/* thread_make_with: stacks are promised memory: half of musl's, twice the deepest call's. */
bool thread_make_with(void *(*body)(void *), void *argument)
{
    enum { STACK_BYTES = 64 << 10 };
    pthread_attr_t how;
    pthread_t thread;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, STACK_BYTES);
    int r = pthread_create(&thread, &how, body, argument);
    if (r == 0) pthread_detach(thread);
    if (r) say("no thread: %s", strerror(r));
    return r == 0;
}

bool thread_make(void *(*body)(void *)) { return thread_make_with(body, NULL); }

static bool server_start(void)
{
    struct store_stats stats;
    store_stats(server.store, &stats);
    server.log_bytes = stats.log_bytes;
    server.last_csn = server.durable_csn = stats.end_lsn;
    server.extent_pages = (unsigned)(stats.extent_bytes / PAGE_BYTES);
    server.port = (int)kd_system(KD_PORT_CREATE, 0, 0, 0, 0);
    server.commit_port = (int)kd_system(KD_PORT_CREATE, 0, 0, 0, 0);
    server.index_commit_port = (int)kd_system(KD_PORT_CREATE, 0, 0, 0, 0);
    if (server.port < 0 || server.commit_port < 0 || server.index_commit_port < 0 ||
        committer_init() < 0 || index_init() < 0)
        return false;
    pager_init();
    votes_start();
    if (!device_workers()) say("not all disks have a thread of their own");
    bool ok = thread_make(committer_main) && thread_make(publisher_main) &&
              thread_make(unspill_main) && thread_make(cleaner_main) && thread_make(scrub_main) &&
              thread_make(index_main) && thread_make(audit_main);
    if (!ok) return false;
    server_lock();
    credits_update(true);
    server_unlock();
    int mended = paths_open();
    if (mended < 0) say("the directories cannot be read or mended: %s", strerror(-mended));
    return mended == 0;
}

/* zone_claim claims the addresses of our containers: the commit port bears the names of the small
 * zones that they make up. */
static bool zone_claim(void)
{
    char name[16];
    struct store_stats stats;
    store_stats(server.store, &stats);
    uint64_t small = store_zone_bytes(STORE_ZONE_SMALL), at = store_zone_base(stats.zone);
    uint64_t first = STORE_ZONE_SMALL + (at - STORE_REGION_BASE) / small;
    long r = 0;
    for (uint64_t i = 0; r == 0 && i < store_zone_bytes(stats.zone) / small; i++) {
        snprintf(name, sizeof(name), "zone %llu", (unsigned long long)(first + i));
        r = KD2(KD_NAME_SET, name, server.commit_port);
    }
    if (r == 0) return true;
    say("refused: another store that is attached has its addresses in zone %u, too; `kstore create "
        "--zone N` makes one elsewhere", stats.zone);
    return false;
}

/* The program is store [LIFE [NAME [GRACE [ZONE]]]]: how often init started it again; the name of
 * the disk and of the store; in a site, for how many ms another one may use what an earlier life
 * has granted, and where a store that is made has its addresses, as the sites have agreed. */
int main(int argc, char **argv)
{
    struct disk_io io;
    if (argc > 2) server.name = argv[2];
    setpriority(PRIO_PROCESS, 0, STORE_NICE);
    options_read(argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0);
    if (argc > 4) options.zone = (uint32_t)strtoul(argv[4], NULL, 10);
    if (!options.crc_fixed) crc32c_choose(&disk_clock);
    if (!disk_open(&io)) return STORE_EXIT_NO_DISK;
    powers_keep(KD_RIGHT_NAMES);
    unsigned grace = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    if (copy_is() ? !copy_start(&io, grace) : !store_start(&io)) return STORE_EXIT_REFUSED;
    if (!server_start()) return 1;
    if (!zone_claim()) return STORE_EXIT_REFUSED;
    if (!parts_start()) return 1;
    grace_begin(copy_is() ? copy_grace_ms() : grace);
    long r = KD2(KD_NAME_SET, server.name, server.port);
    if (r < 0) {
        say("the name \"%s\" is taken: %s", server.name, strerror((int)-r));
        return 1;
    }
    powers_keep(0); /* before the first request is read */
    if (!parts_serve()) return 1;
    for (unsigned i = 1; i < PAGER_THREADS; i++)
        if (!thread_make(pager_main)) return 1;
    if (copy_is()) copy_serves();
    cost_say();
    pager_main(NULL);
    return 1;
}
