/*
 * scrub.c - the scrubber: reads every copy on the disk when there is time, and has mended what has
 * rotted.
 *
 * disk/scrub.c hands out a piece of up to 64 KiB after the other. Each is read without the lock
 * when no group is in the air, and so many a second that `store.scrub_kib` is not exceeded; or at
 * once, if somebody asked for a round (STORE_SCRUB). What is rotten the cleaner puts back, in the
 * gate: it alone writes homes, areas and slots. What has no other copy is written anew by two
 * checkpoints; a page is lost then, which is said once, and everything else goes on.
 */
#include "group.h"
#include "options.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define FIRST_S       60                /* after a start, so long nothing is read */
#define READ_NICE     19                /* of this thread, while it reads without the lock */
#define PAUSE_MS      10                /* a checkpoint runs, or commits do not end */
#define WAITERS_MAX   8u
#define TOLD_MAX      256u              /* lost pages that are told one by one */

/* Guarded by server.lock: */
static struct {
    uint64_t rounds, begun;             /* done; the number of the one that runs */
    uint64_t mended, lost, anew;        /* put back; without another copy; written by checkpoints */
    bool repair;                        /* the cleaner is asked to put `piece` back ... */
    int result;                         /* ... and that came of it */
    bool restart;  /* somebody asked for a round, and none that is asked for runs */
    unsigned waiters;
    struct { uint64_t token, round; } waiter[WAITERS_MAX];
} scrub;
static struct store_scrub piece;        /* of this thread, but for the cleaner during a repair */
static struct { uint64_t object, page; } lost_told[TOLD_MAX];
/* `saved`: in this round checkpoints have written all anew */
static unsigned lost_told_count, saved;
static pthread_cond_t scrub_asked = PTHREAD_COND_INITIALIZER;

/* ---- what is said */

static void piece_name(char *name, size_t bytes)
{
    struct store_container c;
    static const char *const part[2][3] = {{"superblock A", "superblock B", "the signpost"},
                                           {"metadata area 0", "metadata area 1", ""}};
    if (piece.kind == STORE_SCRUB_PAGE) {
        bool known = store_container_get(server.store, piece.object, &c) == 0;
        snprintf(name, bytes, "%s, page %llu", known ? c.name : "?",
                 (unsigned long long)piece.page);
    } else if (piece.kind == STORE_SCRUB_RING) {
        snprintf(name, bytes, "a block of the log");
    } else {
        snprintf(name, bytes, "%s", part[piece.kind != STORE_SCRUB_SLOT][piece.part]);
    }
}

/* tell says what became of the piece. Lock held, dropped while it is said. */
static void tell(const char *what)
{
    char name[STORE_NAME_BYTES + 40];
    bool unreadable = piece.unreadable >> piece.bad & 1;
    piece_name(name, sizeof(name));
    server_unlock();
    say("scrub: %s (byte %llu of the disk) %s: %s", name, (unsigned long long)piece.good_offset,
        unreadable ? "cannot be read" : "has rotted", what);
    server_lock();
}

/* scrub_told: was it said already? A page that is lost is found again in each round. */
static bool scrub_told(void)
{
    if (piece.kind != STORE_SCRUB_PAGE) return false;
    for (unsigned i = 0; i < lost_told_count; i++)
        if (lost_told[i].object == piece.object && lost_told[i].page == piece.page) return true;
    if (lost_told_count == TOLD_MAX) return true;
    lost_told[lost_told_count].object = piece.object;
    lost_told[lost_told_count++].page = piece.page;
    return false;
}

/* ---- repairs */

bool scrub_repair_due(void)
{
    return scrub.repair;
}

/* scrub_repair, by the cleaner: lock held, dropped for the disk. */
void scrub_repair(void)
{
    gate_enter(true);
    int r = store_scrub_holds(server.store, &piece);
    if (r == 0) {
        server_unlock();
        r = store_scrub_write(server.store, &piece);
        server_lock();
    }
    gate_leave();
    if (store_error(server.store)) server_fence("the flush of a repair failed", r);
    scrub.result = r;
    scrub.repair = false;
    pthread_cond_broadcast(&server.changed);
}

/* repair_wait has the cleaner put the piece back. Lock held, dropped meanwhile. */
static int repair_wait(void)
{
    scrub.repair = true;
    scrub.result = -EIO;
    pthread_cond_signal(&server.work);
    while (scrub.repair && !server.fenced) pthread_cond_wait(&server.changed, &server.lock);
    return scrub.result;
}

static void give_up(void)
{
    scrub.lost++;
    if (!scrub_told())
        tell(piece.kind == STORE_SCRUB_PAGE
                 ? "it has no other copy and is lost. All else works; restore it from a copy of "
                   "the disk, or `kstore "
                   "salvage` the rest"
                 : "it cannot be put back; copy the disk to another one");
    store_scrub_skip(&piece);
}

/* mend mends the piece, which holds something rotten. Lock held, dropped for the disk. */
static void mend(void)
{
    server_unlock();
    int r = store_scrub_seek(server.store, &piece);
    server_lock();
    if (r == 0) r = repair_wait();
    if (r == 0) {
        scrub.mended++;
        tell("it was put back from another copy");
    } else if (r == -EAGAIN || r == -ENOMEM || server.fenced) {
        return;
    } else if (piece.kind != STORE_SCRUB_PAGE && saved == 0) {
        saved++;
        scrub.anew++;
        tell("two checkpoints write it anew");
        if (checkpoint_wait() == 0) (void)checkpoint_wait();
    } else {
        give_up();
    }
}

/* ---- rounds */

static void round_begin(void)
{
    memset(&piece, 0, offsetof(struct store_scrub, blocks));
    piece.skip = piece.written = piece.again = 0;
    scrub.begun++;
    scrub.restart = false;
    saved = 0;
}

/* waiters_answer answers those who asked for this round; with an error, all. Lock held. */
static void waiters_answer(int error)
{
    unsigned left = 0;
    for (unsigned i = 0; i < scrub.waiters; i++) {
        struct kd_message reply = {.status = error, .handle = -1};
        if (!error && scrub.waiter[i].round > scrub.begun) {
            scrub.waiter[left++] = scrub.waiter[i];
            continue;
        }
        scrub_numbers(&reply);
        kd_reply(scrub.waiter[i].token, &reply);
    }
    scrub.waiters = left;
}

void scrub_numbers(struct kd_message *reply)
{
    reply->word[0] = scrub.rounds;
    reply->word[1] = piece.blocks * PAGE_BYTES / 1024;
    reply->word[2] = scrub.mended + scrub.anew;
    reply->word[3] = scrub.lost;
}

/* scrub_ask: the answer comes at the end of a round that begins from now on. -EBUSY: too many. */
int scrub_ask(uint64_t token)
{
    server_lock();
    int r = server_writable();
    if (r == 0 && scrub.waiters == WAITERS_MAX) r = -EBUSY;
    if (r == 0) {
        scrub.restart |= scrub.waiters == 0;
        scrub.waiter[scrub.waiters].token = token;
        scrub.waiter[scrub.waiters++].round = scrub.begun + 1;
        pthread_cond_signal(&scrub_asked);
    }
    server_unlock();
    return r;
}

/* turn_wait waits until the next piece may be read: at once if somebody waits, but after groups
 * that are in the air. */
static void turn_wait(void)
{
    static bool started;
    uint64_t rate = options.scrub_kib * 1024,
             left = rate ? piece.count * PAGE_BYTES * 1000000ull / rate : 0;
    if (!started) left = FIRST_S * 1000000ull;
    started = true;
    if (scrub.waiters == 0 && rate == 0)
        pthread_cond_wait(&scrub_asked, &server.lock);
    else if (scrub.waiters == 0 && left)
        server_wait(&scrub_asked, left);
    for (int i = 0; i < 2 && group_flying(); i++) server_wait(&scrub_asked, PAUSE_MS * 1000);
}

/* piece_step reads and judges one piece, if there is one. Lock held, dropped for the disk and the
 * checksums, which are computed when nobody else wants the CPU; with the lock, which commits wait
 * for, the thread is as fast as they. */
static void piece_step(void)
{
    int r = store_scrub_next(server.store, &piece);
    if (r == -ENOENT) {
        scrub.rounds++;
        waiters_answer(0);
        round_begin();
    } else if (r == -EAGAIN) {
        server_wait(&scrub_asked, PAUSE_MS * 1000);
    } else if (r < 0) {
        waiters_answer(r);
        pthread_cond_wait(&scrub_asked, &server.lock); /* fenced: nothing is written any more */
    } else {
        server_unlock();
        setpriority(PRIO_PROCESS, 0, READ_NICE);
        store_scrub_read(server.store, &piece);
        setpriority(PRIO_PROCESS, 0, STORE_NICE);
        server_lock();
        if (store_scrub_judge(server.store, &piece) == -EUCLEAN) mend();
    }
}

void *scrub_main(void *unused)
{
    (void)unused;
    memset(&piece, 0, sizeof(piece)); /* has it in memory: nobody waits for frames with the lock */
    server_lock();
    round_begin();
    for (;;) {
        turn_wait();
        if (scrub.restart) round_begin();
        piece_step();
    }
}
