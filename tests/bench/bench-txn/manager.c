/*
 * manager.c - the other process: it serves the pages of one object, decides about rights where it
 * is asked (OBJECT_ASKS), publishes commits, and counts what it hears.
 *
 * All reading of a disk is short-circuited, as in Cricket's measurement: pages come from a dummy
 * one.
 */
#include "bench.h"

enum { CALL_NULL = 1, CALL_OBJECT, CALL_HEARD, CALL_END, CALL_PAGE_OUT, CALL_PAGE_BACK };
enum { PROVIDE_MAX = 64, FIRST_PLACE = 2,
       RIGHTS = KD_READ | KD_WRITE };

/* ---- the manager ---- */

static struct {
    int port, object, lent;
    unsigned flags, how, provide;
    uint64_t places, csn;
    struct heard heard;
} m;
static uint8_t dummy[PROVIDE_MAX * KD_PAGE_BYTES];

static void supply(uint64_t page, uint64_t count, unsigned rights, uint64_t number)
{
    struct kd_supply s = { .object = m.object, .source = KD_SUPPLY_MEMORY,
                           .rights = rights, .number = (uint32_t)number, .page = page,
                           .count = least(count, OBJECT_PAGES - page),
                           .memory = dummy };
    kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

static void serve_page(const struct kd_message *in)
{
    uint64_t count = m.provide ? m.provide : least(in->word[2], PROVIDE_MAX);
    uint64_t first = m.provide ? in->word[1] / count * count : in->word[1];
    int asks = (int)(m.flags & OBJECT_ASKS), prefetch = (int)(m.how & MANAGER_PREFETCH);
    if (in->word[3] & KD_PAGE_HERE) {
        m.heard.locks++;
        kd_call6(KD_OBJECT_GRANT, m.object, (long)in->word[1], 1, KD_READ, (long)in->word[6], 0);
        return;
    }
    m.heard.pages++;
    m.heard.locks += asks && prefetch;
    supply(first, count, asks && !prefetch ? 0 : RIGHTS, asks ? in->word[6] : 0);
}

static void serve_commit(const struct kd_message *in)
{
    static uint8_t changes[1 << 20];
    struct kd_diff d = {.view = in->word[0], .token = in->token};
    long e = 0;
    m.heard.commits++;
    while (d.cursor != ~0ull && !e) {
        d.buffer = changes;
        d.buffer_bytes = sizeof changes;
        e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
    }
    struct kd_publish p = {in->word[0], in->token, ++m.csn};
    if (e || kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0))
        kd_call3(KD_TXN_REFUSE, (long)in->word[0], (long)in->token, EIO);
}

/* word 0: flags, 1: how, 2: provide -> word 0: the address */
static void object_make(const struct kd_message *in, struct kd_message *reply)
{
    if (m.object >= 0)
        kd_call3(KD_OBJECT_DESTROY, m.object, 0, 0);
    m.flags = (unsigned)in->word[0], m.how = (unsigned)in->word[1],
    m.provide = (unsigned)in->word[2];
    struct kd_object_create c = {.port = m.port, .commit_port = m.port, .pages = OBJECT_PAGES,
                                 .flags = m.flags & ~OBJECT_ASKS, .name = "bench-txn",
                                 .base = KD_STORE_END - (++m.places + FIRST_PLACE) * (1ull << 30)};
    m.object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    for (uint64_t page = 0; m.how & MANAGER_RESIDENT && page < OBJECT_PAGES; page += PROVIDE_MAX)
        supply(page, PROVIDE_MAX, m.flags & OBJECT_ASKS ? 0 : RIGHTS, 0);
    reply->status = m.object < 0 ? m.object
                                 : (int)kd_call3(KD_SPACE_ATTACH, (long)in->process, m.object,
                                                 KD_RIGHT_READ | KD_RIGHT_WRITE);
    reply->word[0] = c.base;
}

/* The object of one page that is lent, with its page in memory. */
static void lent_make(void)
{
    struct kd_object_create c = {.port = m.port, .commit_port = m.port, .pages = 1,
                                 .name = "bench-txn page",
                                 .base = KD_STORE_END - FIRST_PLACE * (1ull << 30)};
    m.lent = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    struct kd_supply s = {.object = m.lent, .source = KD_SUPPLY_MEMORY, .memory = dummy,
                          .rights = KD_READ, .count = 1};
    kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

int manager_main(void)
{
    static uint8_t inbox[KD_PAGE_BYTES];
    struct kd_message in = {.handle = -1}, reply = {.handle = -1}; /* no buffer for answers */
    m.object = -1;
    m.port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    lent_make();
    if (kd_call3(KD_NAME_SET, (long)"bench-txn", m.port, 0))
        return 1;
    for (uint64_t token = 0;;) {
        in.data_bytes = 0;
        in.buffer = inbox;
        in.buffer_bytes = sizeof inbox;
        in.handle = -1;
        long e = token
                     ? kd_call4(KD_PORT_REPLY_RECEIVE, (long)token, (long)&reply, m.port, (long)&in)
                     : kd_call3(KD_PORT_RECEIVE, m.port, (long)&in, -1);
        if (e)
            return 2;
        token = 0;
        reply.status = 0;
        switch (in.kind) {
        case KD_MSG_PAGE: serve_page(&in); break;
        case KD_MSG_COMMIT: serve_commit(&in); break;
        case KD_MSG_CONFLICT: m.heard.conflicts++; break;
        case CALL_END: return 0;
        case CALL_NULL:
            token = in.token; /* and an empty answer */
            break;
        case CALL_PAGE_OUT:
            token = in.token;
            reply.status = (int)kd_call3(KD_SPACE_ATTACH, (long)in.process, m.lent, KD_RIGHT_READ);
            break;
        case CALL_PAGE_BACK:
            token = in.token;
            reply.status = (int)kd_call3(KD_SPACE_DETACH, (long)in.process, m.lent, 0);
            break;
        case CALL_OBJECT:
            object_make(&in, &reply);
            token = in.token;
            break;
        case CALL_HEARD:
            memcpy(reply.word, &m.heard, sizeof m.heard);
            m.heard = (struct heard){0};
            token = in.token;
            break;
        default: m.heard.others++;
        }
    }
}

/* ---- its client ---- */

static long port, pid;

void manager_start(void)
{
    pid = self_start("--manager", NULL);
    while ((port = kd_call3(KD_NAME_FIND, (long)"bench-txn", 0, 0)) == -ENOENT)
        kd_call3(24, 0, 0, 0); /* sched_yield */
    if (port < 0)
        fail("the manager", port);
}

void manager_null(void)
{
    struct kd_message q = {.kind = CALL_NULL, .handle = -1};
    kd_call3(KD_PORT_CALL, port, (long)&q, 0);
}

static struct kd_message ask(struct kd_message q)
{
    q.handle = -1;
    long e = kd_call3(KD_PORT_CALL, port, (long)&q, 0);
    if (e || q.status)
        fail("the manager", e ? e : q.status);
    return q;
}

void manager_page_in(const void *page)
{
    ask((struct kd_message){.kind = CALL_NULL, .data = page, .data_bytes = KD_PAGE_BYTES});
}

void manager_page_out(void) { ask((struct kd_message){.kind = CALL_PAGE_OUT}); }

void manager_page_back(void) { ask((struct kd_message){.kind = CALL_PAGE_BACK}); }

void manager_stop(void)
{
    struct kd_message q = {.kind = CALL_END, .handle = -1};
    kd_call3(KD_PORT_CALL, port, (long)&q, 0);
    self_wait(pid);
}

volatile char *manager_object(unsigned flags, unsigned how, unsigned provide, unsigned cluster)
{
    uint64_t at =
        ask((struct kd_message){ .kind = CALL_OBJECT, .word = { flags, how, provide } }).word[0];
    long e = kd_call3(KD_CONTAINER_POLICY, (long)at, KD_POLICY_CLUSTER, cluster);
    if (e)
        fail("cluster size", e);
    return (volatile char *)at;
}

struct heard manager_heard(void)
{
    struct kd_message q = ask((struct kd_message){.kind = CALL_HEARD});
    struct heard h;
    memcpy(&h, q.word, sizeof h);
    return h;
}
