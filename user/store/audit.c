/*
 * audit.c - the auditor: looks at pages in memory that have codewords (PS_PROTECT_CODEWORDS) when
 * there is time, and has mended what no transaction changed.
 *
 * The kernel compares; here is when, and with what a damaged page is mended. A round goes over all
 * such pages, at most `store.audit_kib` KiB a second, or at once if somebody asked for it
 * (STORE_AUDIT), or a commit was refused because of what it met (audit_hurry). Besides, each page
 * is compared before and behind a home write (clean.c), and where a program asks for it (PS_CHECK).
 *
 * AU1  A page is mended by the cleaner: it alone releases log and writes homes, so what the page is
 *      made of stays. The kernel takes it in the gate, when no group is in the air: then the
 *      version that the log has is the one that is published. Commits go on while the log is read.
 * AU2  A page that cannot be mended ends the store's commits; the next start builds all from the
 *      log.
 * AU3  A page that the kernel does not take now is none of those: a transaction that has told it
 *      is in doubt, or waits for the cleaner itself, or there is no frame. Its home is written from
 *      the log, so no checkpoint waits for it, and it is mended when it is found again.
 */
#include "group.h"
#include "options.h"

#include <string.h>

#define AUDIT_WAITERS   8u
#define TOLD_MS      1
#define TOLD_TRIES     1000
#define LATER             1             /* AU3 */
#define LATER_SAY_US   60000000u        /* it is said so often at most */

/* Guarded by server.lock: */
static struct {
    uint64_t rounds, begun;             /* done; the number of the one that runs */
    uint64_t looked, found, mended;     /* pages; found: but for those of AU3 */
    uint64_t later_us;                  /* when it was last said that one is mended later, or 0 */
    uint64_t id, page;                  /* the next piece */
    bool hurry;                         /* a round is made at once ... */
    bool restart;                       /* ... from the first page on */
    bool due;                           /* the cleaner is to mend a page ... */
    uint64_t due_id, due_page;
    unsigned waiters;
    struct { uint64_t token, round; } waiter[AUDIT_WAITERS];
} audit;
static pthread_cond_t audit_asked = PTHREAD_COND_INITIALIZER;

static bool has_codewords(const struct container *c)
{
    return c->segment_count && form_flags(c->form) & KD_OBJECT_CODEWORDS;
}

/* ---- a page is mended, by the cleaner */

/* page_home brings home what was read (AU3); a newer version, or one that is being brought
 * (batch_settle), is found again. Lock held, dropped for the disk. */
static int page_home(const struct store_mend *m, int object, uint64_t object_page)
{
    struct store_page at;
    int r = m->at.lsn > server.durable_csn ? group_flush() : 0; /* MG5 */
    if (r < 0) return r;
    if (store_page_find(server.store, m->object, m->page, &at) < 0 || !at.dirty ||
        at.lsn != m->at.lsn)
        return 0;
    server_unlock();
    r = server.disk.write(server.disk.context, at.offset_bytes, m->bytes, PAGE_BYTES);
    server_lock();
    if (r < 0) return r;
    server.home_writes++;
    if (!is_brought(m->object, m->page) &&
        store_page_cleaned(server.store, m->object, m->page, at.lsn,
                           crc32c(0, m->bytes, PAGE_BYTES)) == 0)
        kd_object_cleaned(object, object_page, at.lsn); /* MG2; if it goes, it comes back right */
    return 0;
}

/* page_mend puts a page's right bytes into the kernel. LATER: not now (AU3). Lock held, dropped for
 * the disk. */
static int page_mend(uint64_t id, uint64_t page, int object, uint64_t object_page, bool in_gate)
{
    static struct store_mend m;
    bool has = false;
    int r = store_mend_begin(server.store, id, page, &m);
    if (r < 0) return 0; /* deleted */
    if (!m.at.dirty && store_page_prepared(server.store, id, page)) return LATER;
    for (int try = 0;; try++) {
        server_unlock();
        r = store_mend_read(server.store, &m);
        server_lock();
        if (!in_gate) gate_enter(true);
        if (r == 0 && store_mend_again(server.store, &m)) r = store_mend_read(server.store, &m);
        uint64_t csn = m.at.present ? m.at.lsn : KD_CSN_ANY;
        has = r == 0;
        if (has) r = (int)kd_object_mend(object, object_page, m.bytes, csn);
        if (!in_gate) gate_leave();
        /* BUSY: a commit of this page was told, and waits for the next group; or a vote */
        if (r != -EBUSY || in_gate || try == TOLD_TRIES ||
            store_page_prepared(server.store, id, page))
            break;
        server_wait(&server.changed, TOLD_MS * 1000);
    }
    if (r == -EBUSY || r == -ENOMEM) return (has ? page_home(&m, object, object_page) : 0) ?: LATER;
    return r == -ENOENT ? 0 : r;
}

int audit_mend(uint64_t id, uint64_t page, bool in_gate)
{
    struct kd_damage d;
    char name[STORE_NAME_BYTES];
    int object;
    uint64_t object_page;
    if (container_object(id, page, &object, &object_page) < 0) return 0;
    if (kd_object_audit(object, object_page, 1, &d) != -EUCLEAN) return 0;
    struct container *c = container_by_id(id);
    memcpy(name, c->name, sizeof(name));
    c->busy++;
    int r = page_mend(id, page, object, object_page, in_gate);
    c->busy--;
    audit.found += r != LATER;
    audit.mended += r == 0;
    if (r == LATER) {
        uint64_t now = disk_clock.microseconds(NULL);
        if (audit.later_us && now - audit.later_us < LATER_SAY_US) return 0;
        audit.later_us = now;
    }
    server_unlock();
    say("%s, page %llu, region %d of %d: not what was committed%s", name, (unsigned long long)page,
        __builtin_ctzll(d.regions) + 1, KD_REGIONS,
        r == 0       ? ": it was mended. Transactions that had changed it end with EIO"
        : r == LATER ? "; it is mended later: a transaction that changed it is in doubt, or there "
                       "is no memory"
                     : ", and it cannot be mended");
    server_lock();
    if (r == LATER) return 0;
    if (r < 0) server_fence("a damaged page of memory could not be mended", r); /* AU2 */
    return r;
}

bool audit_mend_due(void)
{
    return audit.due;
}

void audit_mend_one(void)
{
    (void)!audit_mend(audit.due_id, audit.due_page, false);
    audit.due = false;
    pthread_cond_broadcast(&server.changed);
}

/* mend_wait has the cleaner mend the page, and waits. Lock held, dropped meanwhile. */
static void mend_wait(uint64_t id, uint64_t page)
{
    while (audit.due && !server.fenced) pthread_cond_wait(&server.changed, &server.lock);
    if (server.fenced) return;
    audit.due = true;
    audit.due_id = id;
    audit.due_page = page;
    pthread_cond_signal(&server.work);
    while (audit.due && !server.fenced) pthread_cond_wait(&server.changed, &server.lock);
}

/* ---- rounds */

/* container_from returns the first container from this id on with codewords; NULL: none. */
static struct container *container_from(uint64_t id)
{
    struct container *first = NULL;
    for (unsigned i = 0; i < CONTAINER_HASH; i++)
        for (struct container *c = server.containers[i]; c; c = c->next)
            if (c->id >= id && has_codewords(c) && (!first || c->id < first->id)) first = c;
    return first;
}

static void audit_answer(int error)
{
    unsigned left = 0;
    for (unsigned i = 0; i < audit.waiters; i++) {
        struct kd_message reply = {.status = error, .handle = -1};
        if (!error && audit.waiter[i].round > audit.begun) {
            audit.waiter[left++] = audit.waiter[i];
            continue;
        }
        audit_numbers(&reply);
        kd_reply(audit.waiter[i].token, &reply);
    }
    audit.waiters = left;
    audit.hurry = left;
}

/* piece_next returns the container of the next piece, behind the last page of one the next one.
 * NULL: the round is over. */
static struct container *piece_next(int *object, uint64_t *object_page)
{
    struct container *c = container_from(audit.id);
    for (; c; c = container_from(audit.id + 1)) {
        audit.page = c->id == audit.id ? audit.page : 0;
        audit.id = c->id;
        if (container_object(c->id, audit.page, object, object_page) == 0) break;
    }
    return c;
}

/* audit_step audits one piece: how many pages it looked at. Lock held, dropped meanwhile. */
static uint64_t audit_step(void)
{
    int object;
    uint64_t object_page;
    if (audit.restart) {
        audit.id = audit.page = 0;
        audit.begun++;
        audit.restart = false;
    }
    struct container *c = piece_next(&object, &object_page);
    if (!c) {
        audit.rounds++;
        audit_answer(0);
        audit.begun++;
        audit.id = audit.page = 0;
        return 0;
    }
    if (c->leaving) { /* a piece would keep its objects from being given up or made anew */
        pthread_cond_wait(&server.changed, &server.lock);
        return 0;
    }
    uint64_t left = container_left(c, audit.page);
    struct kd_damage d = {.page = object_page + left};
    uint64_t id = audit.id, shift = audit.page - object_page;
    c->busy++;
    server_unlock();
    long r = kd_object_audit(object, object_page, left, &d);
    server_lock();
    c->busy--;
    pthread_cond_broadcast(&server.changed);
    audit.looked += d.looked;
    audit.page = d.page + shift;
    if (r == -EUCLEAN) mend_wait(id, audit.page++);
    return d.looked;
}

/* audit_turn waits until the next piece is due. Lock held, dropped meanwhile. */
static void audit_turn(uint64_t looked)
{
    uint64_t rate = options.audit_kib * 1024;
    while (!audit.hurry && (!rate || !container_from(0) || server.fenced))
        pthread_cond_wait(&audit_asked, &server.lock);
    if (!audit.hurry && (looked || audit.id == 0))
        server_wait(&audit_asked, (looked ? looked : 1) * PAGE_BYTES * 1000000 / rate);
}

void *audit_main(void *unused)
{
    uint64_t looked = 0;
    (void)unused;
    server_lock();
    for (;;) {
        audit_turn(looked);
        if (server.fenced) {
            audit_answer(-EIO);
            continue;
        }
        looked = audit_step();
    }
}

/* ---- asked for */

void audit_wake(void)
{
    pthread_cond_signal(&audit_asked);
}

void audit_hurry(void)
{
    audit.restart |= !audit.hurry;
    audit.hurry = true;
    pthread_cond_signal(&audit_asked);
}

void audit_numbers(struct kd_message *reply)
{
    reply->word[0] = audit.rounds;
    reply->word[1] = audit.looked;
    reply->word[2] = audit.found;
    reply->word[3] = audit.mended;
}

int audit_ask(uint64_t token)
{
    server_lock();
    int r = audit.waiters == AUDIT_WAITERS ? -EBUSY : server.fenced;
    if (r == 0) {
        audit.waiter[audit.waiters].token = token;
        audit.waiter[audit.waiters++].round = audit.begun + 1;
        audit_hurry();
    }
    server_unlock();
    return r;
}

int audit_page(uint64_t process, uint64_t address)
{
    struct store_container d;
    uint64_t page;
    server_lock();
    int r = store_container_at(server.store, address, &d, &page);
    const struct container *c = r == 0 ? container_by_id(d.object) : NULL;
    if (r == 0) r = c ? container_allows(c, process, KD_RIGHT_READ) : -ENOENT;
    if (r == 0) mend_wait(d.object, page);
    if (r == 0) r = server.fenced;
    server_unlock();
    return r;
}

/* audit_request: word0 0: only the numbers; 1: the auditor answers; 2: of one page. */
bool audit_request(const struct kd_message *m)
{
    if (m->kind != STORE_AUDIT) return false;
    struct kd_message reply = {.handle = -1};
    if (m->word[0]) reply.status = m->word[0] == 1 ? audit_ask(m->token)
                                                   : audit_page(m->process, m->word[1]);
    if (m->word[0] == 1 && reply.status == 0) return true;
    server_lock();
    audit_numbers(&reply);
    server_unlock();
    kd_reply(m->token, &reply);
    return true;
}
