/*
 * decide.c - who decides about first touches of a container's pages: the kernel, as the store hands
 * it every right with the page; the store manager, which then hears of each touch and grants it; or
 * a program that has the container open (STORE_DECIDE, libpstore/decide.h).
 *
 * While the kernel does not decide, pages are supplied without rights, and those that were in
 * memory before are called back. Whoever decides gives a right for one touch, or for all, and may
 * call rights back. Whatever it says, transactions stay serialisable: the kernel shares what it has
 * by the same rules as ever.
 *
 * A program's question waits here until its call asks for the next one: the store waits for nobody.
 * When the program ends, or closes the container, the kernel decides again, and whoever waited for
 * an answer goes on. So does a question that comes late, of a page that was supplied without rights
 * just before.
 *
 * Invariants
 *   DE1  A view asks one thing at a time: `asked` has what it asked last, of one container.
 *   DE2  A program that no longer decides leaves no question behind: who waits asks anew, and is
 *        answered by who decides then.
 *   DE3  A program may say that a view waits only while that asks it something.
 */
#include "server.h"

#include <sched.h>
#include <stdlib.h>

/* PIECE is how many pages are told of without a pause. */
enum { PIECE = 1024, RW = KD_READ | KD_WRITE };

static struct asked {                   /* by view; container 0: nothing */
    uint64_t container, cookie, page, access, number;
    bool told;
} asked[KD_VIEW_MAX];
struct deciding {
    uint64_t process, token;            /* token: its call that waits for the next; or 0 */
    bool recalled;                      /* a user has ended, or one who asked has gone */
    unsigned first, count;
    uint8_t view[KD_VIEW_MAX];          /* that asked, in order: each once, which `in` says; some */
    uint64_t in[KD_VIEW_MAX / 64];      /* ask elsewhere by now */
};

static void token_answer(uint64_t token, int status)
{
    struct kd_message reply = {.handle = -1, .status = status};
    kd_reply(token, &reply);
}

/* ---- the program that decides; lock held ---- */

static void next_say(const struct container *c, const struct asked *a, struct kd_message *reply)
{
    uint64_t id, page = 0;
    reply->word[0] = a ? WIRE_ASKED : WIRE_RECALLED;
    if (!a) return;
    (void)cookie_page(a->cookie, a->page, &id, &page);
    reply->word[1] = container_address(c, page);
    reply->word[2] = a->access;
    reply->word[3] = (uint64_t)(a - asked);
    reply->word[4] = a->number;
}

static void first_leaves(struct deciding *d)
{
    unsigned view = d->view[d->first];
    d->in[view / 64] &= ~(1ull << view % 64);
    d->first = (d->first + 1) % KD_VIEW_MAX;
    d->count--;
}

/* next_find returns the question that the program hears next, or NULL. */
static struct asked *next_find(const struct container *c)
{
    for (struct deciding *d = c->deciding; d->count; first_leaves(d)) {
        struct asked *a = &asked[d->view[d->first]];
        if (a->container == c->id && !a->told) return a;
    }
    return NULL;
}

/* next_deliver tells the call that waits what is next. One that was given up meanwhile leaves that
 * to the call that comes after it. */
static void next_deliver(const struct container *c)
{
    struct deciding *d = c->deciding;
    struct kd_message reply = {.handle = -1};
    uint64_t token = d->token;
    struct asked *a = token && !d->recalled ? next_find(c) : NULL;
    if (!token || (!d->recalled && !a)) return;
    next_say(c, a, &reply);
    d->token = 0;
    if (kd_reply(token, &reply) < 0) return;
    if (a) {
        a->told = true;
        first_leaves(d);
    }
    d->recalled = false;
}

/* is_older: is this what the view asked before what it asks now? Threads that read the port may
 * come to the lock in another order. Numbers grow, and begin anew behind 32 bits. */
static bool is_older(uint32_t number, unsigned view)
{
    enum { SOON = 1 << 20 };
    uint32_t by = (uint32_t)asked[view].number - number;
    return asked[view].number && by && by < SOON;
}

static void asked_put(const struct container *c, const struct kd_message *m, unsigned view)
{
    struct deciding *d = c->deciding;
    if (is_older((uint32_t)m->word[6], view)) return; /* DE1 */
    asked[view] = (struct asked){.container = c->id, .cookie = m->word[0], .page = m->word[1],
                                 .access = m->word[3] & RW, .number = m->word[6]};
    if (!(d->in[view / 64] >> view % 64 & 1))
        d->view[(d->first + d->count++) % KD_VIEW_MAX] = (uint8_t)view;
    d->in[view / 64] |= 1ull << view % 64;
    next_deliver(c);
}

/* asks_still: does the view ask what was told? If so, the question stands at this moment. */
static bool asks_still(const struct container *c, uint64_t view)
{
    const struct asked *a = view < KD_VIEW_MAX ? &asked[view] : NULL;
    return a && a->container == c->id && a->told &&
           kd_object_refuse(c->segment[a->cookie & 15].object, a->page, EAGAIN, a->number) == 0;
}

/* ---- what the kernel says ---- */

bool decide_asked(const struct kd_message *m)
{
    if (!(m->word[3] & KD_PAGE_HERE) || server.read_only) return false;
    server_lock();
    const struct container *c = container_by_id(STORE_COOKIE_CONTAINER(m->word[0]));
    if (c && c->deciding && m->word[4] - 1 < KD_VIEW_MAX)
        asked_put(c, m, (unsigned)m->word[4] - 1);
    else if (c && c->decided == WIRE_DECIDE_STORE)
        kd_object_grant((int)m->word[5], m->word[1], 1, m->word[3] & KD_WRITE ? RW : KD_READ,
                        m->word[6]);
    else if (c)
        kd_object_grant((int)m->word[5], m->word[1], 1, RW, 0);
    server_unlock();
    return true;
}

void decide_recalled(uint64_t cookie)
{
    server_lock();
    const struct container *c = container_by_id(STORE_COOKIE_CONTAINER(cookie));
    if (c && c->deciding) {
        c->deciding->recalled = true;
        next_deliver(c);
    }
    server_unlock();
}

/* ---- who decides; lock held ---- */

static void deciding_end(struct container *c)
{
    if (!c->deciding) return;
    if (c->deciding->token) token_answer(c->deciding->token, -ECANCELED);
    free(c->deciding);
    c->deciding = NULL;
    for (struct asked *a = asked; a < asked + KD_VIEW_MAX; a++) {
        if (a->container != c->id) continue;
        a->container = 0;
        kd_object_grant(c->segment[a->cookie & 15].object, a->page, 1, 0, a->number); /* DE2 */
    }
}

/* pause_piece gives others the lock: nobody waits for it longer than for PIECE pages. */
static void pause_piece(void)
{
    server_unlock();
    sched_yield();
    server_lock();
}

static void piece_told(const struct container *c, unsigned segment, uint64_t page, uint64_t count)
{
    uint64_t users[2];
    if (c->decided == WIRE_DECIDE_KERNEL) /* who waits goes on: a right for all answers them */
        kd_object_grant(c->segment[segment].object, page, count, RW, 0);
    else
        kd_object_recall(c->segment[segment].object, page, count, 0, users);
}

/* all_told opens all pages, or closes them: behind it none has a right that was given before. It
 * ends early if that is decided anew, for then another one tells all. Lock dropped meanwhile. */
static void all_told(struct container *c)
{
    uint64_t decision = c->decision;
    c->opens = false;
    c->busy++;
    while (c->decided != WIRE_DECIDE_KERNEL && pager_brings_open(c->id))
        pthread_cond_wait(&server.changed, &server.lock);
    for (unsigned i = 0; i < c->segment_count; i++)
        for (uint64_t at = 0; at < c->segment[i].pages && c->decision == decision; at += PIECE) {
            uint64_t left = c->segment[i].pages - at;
            piece_told(c, i, at, left < PIECE ? left : PIECE);
            pause_piece();
        }
    c->busy--;
    pthread_cond_broadcast(&server.changed);
}

static int who_set(struct container *c, uint64_t process, uint32_t who)
{
    struct deciding *d = NULL;
    if (c->deciding && c->deciding->process != process) return -EBUSY;
    if (server.read_only) return -EROFS;
    if (who == WIRE_DECIDE_CALLER && !c->deciding) {
        d = calloc(1, sizeof(*d));
        if (!d) return -ENOMEM;
        d->process = process;
        c->deciding = d;
    }
    if (who != WIRE_DECIDE_CALLER) deciding_end(c);
    c->decided = who;
    c->decision++;
    all_told(c);
    return 0;
}

static bool opens_due;                  /* some container `opens` */

void decide_end(struct container *c, uint64_t process)
{
    if (!c->deciding || (process && c->deciding->process != process)) return;
    deciding_end(c);
    c->decided = WIRE_DECIDE_KERNEL;
    c->decision++;
    c->opens = opens_due = true;
}

static struct container *opens_next(void)
{
    for (unsigned h = 0; h < CONTAINER_HASH; h++)
        for (struct container *c = server.containers[h]; c; c = c->next)
            if (c->opens) return c;
    return NULL;
}

void decide_settle(void)
{
    for (struct container *c; opens_due && (c = opens_next()) != NULL;) all_told(c);
    opens_due = false;
}

/* ---- requests ---- */

/* range_find finds pages of one segment. */
static int range_find(const struct container *c, uint64_t address, uint64_t pages, int *object,
                      uint64_t *page)
{
    uint64_t at;
    if (!container_page(c, address, &at) || !pages || pages > container_left(c, at)) return -EINVAL;
    return container_object(c->id, at, object, page);
}

/* range_act grants many pages to all, or recalls them. Lock dropped between pieces. */
static int range_act(struct container *c, const struct kd_message *m, int object, uint64_t page,
                     struct kd_message *reply)
{
    uint64_t decision = c->decision, users[2] = {0}, n;
    bool grants = (m->word[1] & ~(uint64_t)WIRE_DECIDE_AND_NEXT) == WIRE_DECIDE_GRANT;
    long r = 0;
    c->busy++;
    for (uint64_t done = 0; r >= 0 && done < m->word[3]; done += n) {
        if (done > 0) pause_piece();
        if (c->decision != decision) r = -ECANCELED;
        n = m->word[3] - done < PIECE ? m->word[3] - done : PIECE;
        if (r == 0)
            r = grants ? kd_object_grant(object, page + done, n, (unsigned)m->word[4], 0)
                       : kd_object_recall(object, page + done, n, (unsigned)m->word[4], users);
        reply->word[0] += r > 0 ? (uint64_t)r : 0;
        reply->word[1] |= users[0];
        reply->word[2] |= users[1];
        r = r > 0 ? 0 : r;
    }
    c->busy--;
    pthread_cond_broadcast(&server.changed);
    return (int)r;
}

static int decision_act(struct container *c, const struct kd_message *m,
                        struct kd_message *reply)
{
    uint64_t page = 0;
    int object = -1, r = 0;
    uint64_t what = m->word[1] & ~(uint64_t)WIRE_DECIDE_AND_NEXT;
    if (what == WIRE_DECIDE_NEXT) return 0;
    if (what == WIRE_DECIDE_WAITS) /* DE3 */
        return asks_still(c, m->word[2]) ? (int)kd_view_wait(m->word[2], &m->word[3]) : -ESRCH;
    r = range_find(c, m->word[2], what == WIRE_DECIDE_FAIL ? 1 : m->word[3], &object, &page);
    if (r < 0) return r;
    if (m->word[5] >> 32) return -ESRCH; /* no question's: the kernel's have 32 bits */
    switch (what) {
    case WIRE_DECIDE_GRANT:
        if (m->word[4] != KD_READ && m->word[4] != RW) return -EINVAL;
        if (!m->word[5]) return range_act(c, m, object, page, reply);
        if (m->word[3] > PIECE) return -EINVAL;
        return (int)kd_object_grant(object, page, m->word[3], (unsigned)m->word[4], m->word[5]);
    case WIRE_DECIDE_FAIL:
        if (!m->word[5]) return -EINVAL;
        r = (int)kd_object_refuse(object, page, (int)m->word[4], m->word[5]);
        /* The question is kept behind its asker's end: RECALLED may have been told before. */
        if (r == -ESRCH && m->word[4] == EAGAIN && m->word[1] & WIRE_DECIDE_AND_NEXT)
            c->deciding->recalled = true;
        return r;
    case WIRE_DECIDE_RECALL:
        if (m->word[4] & ~(uint64_t)(KD_READ | KD_RECALL_DROP)) return -EINVAL;
        return range_act(c, m, object, page, reply);
    default: return -EINVAL;
    }
}

/* decide serves STORE_DECIDE, lock held. True: the answer comes later. */
static bool decide(struct container *c, const struct kd_message *m, struct kd_message *reply)
{
    struct deciding *d = c ? c->deciding : NULL;
    bool next = m->word[1] == WIRE_DECIDE_NEXT || m->word[1] & WIRE_DECIDE_AND_NEXT;
    reply->status = c ? container_allows(c, m->process, KD_RIGHT_WRITE) : -ENOENT;
    if (reply->status < 0) return false;
    if (m->word[1] <= WIRE_DECIDE_CALLER) {
        reply->status = who_set(c, m->process, (uint32_t)m->word[1]);
    } else if (!d || d->process != m->process) {
        reply->status = -EPERM;
    } else {
        reply->status = decision_act(c, m, reply);
        if (!next) return false; /* else the next question says no more of this page */
        d = c->deciding;
        if (!d || d->process != m->process) { /* meanwhile */
            reply->status = -ECANCELED;
            return false;
        }
        if (d->token) token_answer(d->token, -EINTR); /* the thread has another call now */
        d->token = m->token;
        next_deliver(c);
        return true;
    }
    return false;
}

bool decide_request(const struct kd_message *m)
{
    if (m->kind != STORE_DECIDE) return false;
    struct kd_message reply = {.handle = -1};
    server_lock();
    bool later = decide(container_by_id(m->word[0]), m, &reply);
    server_unlock();
    if (!later) kd_reply(m->token, &reply);
    return true;
}
