/* manager.c - the manager, whose pages are computed. */
#include "stress.h"

const char *self;
uint64_t seed;

/* ---- small things ---- */

uint64_t next(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x >> 11;
}
uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}
void nap(unsigned ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL); }
uint64_t computed(uint64_t object, uint64_t page, unsigned word)
{
    return (object + 1) * 0x9e3779b97f4a7c15ull ^ page * 0xff51afd7ed558ccdull ^ word;
}
long call(long number, long a, long b, long c) { return kd_call3(number, a, b, c); }
int views_used(void) { return (int)call(KD_VIEW_LIST, 0, 0, 0); }
long check(void) { return call(KD_CHECK, 0, 0, 0); }

/* ---- the manager ---- */

struct managed objects[OBJECTS];
static uint64_t home_large[PAGES][KEPT], home_few[2][FEW][KEPT], csn_large[PAGES], csn_few[2][FEW];
int port, commit_port, lent_port;
static uint64_t next_csn = 1;
_Atomic int hold_commits, lend = -1, asked_error;
_Atomic uint64_t consumed, odd_runs, asks;

static void serve_page(const struct kd_message *m)
{
    static uint64_t page[KD_PAGE_BYTES / 8];
    struct managed *o = &objects[m->word[0]];
    memcpy(page, o->home[m->word[1]], sizeof o->home[0]);
    for (unsigned i = KEPT; i < KD_PAGE_BYTES / 8; i++)
        page[i] = computed(m->word[0], m->word[1], i);
    struct kd_supply s = {.object = o->handle, .source = KD_SUPPLY_MEMORY, .count = 1,
                          .rights = m->word[0] == ASKED ? 0 : KD_READ | KD_WRITE,
                          .page = m->word[1], .csn = o->csn[m->word[1]], .memory = page};
    call(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

/* What is committed is home already, so cleaning is only saying so. */
static void serve_clean(void)
{
    for (int i = 0; i < OBJECTS; i++)
        for (uint64_t p = 0; p < objects[i].pages; p++)
            if (objects[i].csn[p])
                call(KD_OBJECT_CLEANED, objects[i].handle, (long)p, (long)objects[i].csn[p]);
}

static int take_runs(const uint8_t *at, uint64_t bytes, uint64_t csn)
{
    for (const uint8_t *end = at + bytes; at < end;) {
        const struct kd_run *r = (const void *)at;
        struct managed *o = &objects[r->cookie];
        uint64_t n = r->offset + r->bytes;
        odd_runs += n > sizeof o->home[0];
        if (n <= sizeof o->home[0]) memcpy((char *)o->home[r->page] + r->offset, r + 1, r->bytes);
        o->csn[r->page] = csn;
        at += sizeof *r + ((r->bytes + 7u) & ~7u);
    }
    return 0;
}

static void serve_commit(const struct kd_message *m, int which)
{
    static uint8_t buffers[2][1 << 16];
    uint64_t csn = __atomic_fetch_add(&next_csn, 1, __ATOMIC_SEQ_CST), pages = 0;
    struct kd_diff d = {.view = m->word[0], .token = m->token};
    while (hold_commits) nap(1);
    while (d.cursor != ~0ull) {
        d.buffer = buffers[which];
        d.buffer_bytes = sizeof buffers[which];
        if (call(KD_TXN_DIFF, (long)&d, 0, 0)) break;
        take_runs(buffers[which], d.buffer_bytes, csn);
        pages += d.pages;
    }
    struct kd_publish p = {m->word[0], m->token, csn};
    if (d.cursor != ~0ull || call(KD_TXN_PUBLISH, (long)&p, 1, 0))
        call(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, EIO);
    else if (which && lend > 0) {
        consumed += pages;
        if (consumed >= (uint64_t)lend / 2) { /* a "checkpoint" */
            call(KD_CREDIT_GRANT, lent_port, (long)consumed, 0);
            consumed = 0;
        }
    }
}

static void serve_right(const struct kd_message *m)
{
    int o = objects[m->word[0]].handle;
    asks++;
    if (m->word[1] % 8 == 7 && asked_error)
        kd_call6(KD_OBJECT_FAIL, o, (long)m->word[1], 1, asked_error, (long)m->word[6], 0);
    else
        kd_call6(KD_OBJECT_GRANT, o, (long)m->word[1], 1,
                 m->word[3] & KD_WRITE ? KD_READ | KD_WRITE : KD_READ, (long)m->word[6], 0);
}

static void serve_call(const struct kd_message *m)
{
    struct kd_message reply = {.handle = -1};
    for (int i = 0; m->kind == KIND_OPEN && i < OBJECTS && !reply.status; i++)
        reply.status = (int)call(KD_SPACE_ATTACH, (long)m->process, objects[i].handle,
                                 KD_RIGHT_READ | KD_RIGHT_WRITE);
    for (int i = 0; i < OBJECTS; i++) reply.word[i] = objects[i].base;
    call(KD_PORT_REPLY, (long)m->token, (long)&reply, 0);
}

static void *manager(void *arg)
{
    static uint8_t buffers[3][KD_PAGE_BYTES];
    int which = *(int *)arg, at = which == 0 ? port : which == 1 ? commit_port : lent_port;
    for (;;) {
        struct kd_message m = {.buffer = buffers[which], .buffer_bytes = KD_PAGE_BYTES};
        if (call(KD_PORT_RECEIVE, at, (long)&m, -1)) return NULL;
        switch (m.kind) {
        case (uint32_t)KD_MSG_PAGE:
            if (m.word[3] & KD_PAGE_HERE)
                serve_right(&m);
            else
                serve_page(&m);
            break;
        case (uint32_t)KD_MSG_CLEAN: serve_clean(); break;
        case (uint32_t)KD_MSG_COMMIT: serve_commit(&m, which == 2); break;
        case (uint32_t)KD_MSG_CREDIT_LOW:
            call(KD_CREDIT_GRANT, lent_port, (long)consumed, 0); /* 0: there are no more */
            consumed = 0;
            break;
        default:
            if (!(m.kind & KD_MSG_KERNEL)) serve_call(&m);
        }
    }
}

int start_manager(int attach)
{
    static int which[3] = {0, 1, 2};
    pthread_t t;
    port = (int)call(KD_PORT_CREATE, 0, 0, 0);
    commit_port = (int)call(KD_PORT_CREATE, 0, 0, 0);
    lent_port = (int)call(KD_PORT_CREATE, 0, 0, 0);
    objects[LARGE] = (struct managed){0, KD_STORE_BASE, PAGES, home_large, csn_large};
    for (int i = 0; i < 2; i++)
        objects[1 + i] = (struct managed){0, KD_STORE_BASE + (1ull << 30) * (unsigned)(1 + i), FEW,
                                          home_few[i], csn_few[i]};
    for (unsigned i = 0; i < OBJECTS; i++) {
        struct kd_object_create c = { .port = port,
                                      .commit_port = i == LENT ? lent_port : commit_port,
                                      .cookie = i,
                                      .base = objects[i].base,
                                      .name = "stress",
                                      .pages = objects[i].pages,
                                      .flags = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_NOTICES };
        objects[i].handle = (int)call(KD_OBJECT_CREATE, (long)&c, 0, 0);
        if (objects[i].handle < 0) return 0;
        if (attach && call(KD_SPACE_ATTACH, getpid(), objects[i].handle, 3)) return 0;
    }
    for (int i = 0; i < 3; i++) pthread_create(&t, NULL, manager, &which[i]);
    return 1;
}
