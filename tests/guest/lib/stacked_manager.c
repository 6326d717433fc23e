/* stacked_manager.c - a stacked manager for tests (stacked_manager.h). */
#include "stacked_manager.h"

#include <stdlib.h>

enum { WORDS = KD_PAGE_BYTES / 8 };

/* ---- pages ---- */

struct reading { struct stacked *s; uint64_t page, words[WORDS]; };

static int read_below(void *arg)
{
    struct reading *r = arg;
    for (unsigned i = 0; i < WORDS; i++)
        r->words[i] = *word_at(r->s->below, r->page, i) ^ r->s->key;
    return 0;
}

long stacked_supply(struct stacked *s, uint64_t page, void (*between)(void))
{
    struct reading r = {.s = s, .page = page};
    int e = run(read_below, &r, KD_SNAPSHOT, 0);
    struct kd_supply supply = {.object = s->object, .source = KD_SUPPLY_MEMORY,
                               .rights = KD_READ | KD_WRITE, .page = page, .count = 1,
                               .csn = mine->begin.csn, .memory = r.words};
    if (!e && between) between();
    return e ? e : kd_call3(KD_OBJECT_SUPPLY, (long)&supply, 0, 0);
}

static void serve_stacked_page(struct stacked *s, const struct kd_message *m)
{
    long e = stacked_supply(s, m->word[1], NULL);
    if (e && e != -ESTALE) kd_call4(KD_OBJECT_FAIL, s->object, (long)m->word[1], 1, EIO);
}

/* ---- commits ---- */

struct work {
    struct stacked *s;
    const struct kd_message *m;
    uint64_t bytes;
    uint8_t runs[64 << 10];
};

static void store_runs(const struct work *w)
{
    const struct stacked *s = w->s;
    for (uint64_t at = 0; at < w->bytes;) {
        const struct kd_run *r = (const void *)(w->runs + at);
        const uint64_t *words = (const void *)(r + 1);
        for (unsigned i = 0; i < r->bytes / 8u; i++)
            *word_at(s->below, r->page, r->offset / 8u + i) = words[i] ^ s->key;
        at += sizeof *r + ((r->bytes + 7u) & ~7u);
    }
}

static int take_view(struct work *w, uint64_t view)
{
    struct kd_diff d = {.view = view, .token = w->m->token};
    while (d.cursor != ~0ull) {
        d.buffer = w->runs;
        d.buffer_bytes = sizeof w->runs;
        long e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
        if (e) return (int)e;
        w->bytes = d.buffer_bytes;
        store_runs(w);
    }
    return 0;
}

static int help(void *arg)
{
    struct work *w = arg;
    int e = w->s->blind ? 0 : take_view(w, w->m->word[0]);
    for (unsigned v = 0; v < KD_VIEW_MAX && !e && !w->s->blind; v++)
        if (w->m->word[4 + v / 64] >> v % 64 & 1) e = take_view(w, v);
    return !e && w->s->beside ? w->s->beside(w->s, w->m->word[0]) : e;
}

static void serve_stacked_commit(struct stacked *s, const struct kd_message *m)
{
    static __thread struct work *w;
    if (!w) w = malloc(sizeof *w);
    s->helpers = m->word[4];
    s->helpers_high = m->word[5];
    __atomic_fetch_add(&s->commits, 1, __ATOMIC_SEQ_CST);
    w->s = s;
    w->m = m;
    struct kd_begin like = {.mode = KD_HELPER, .view = (uint32_t)m->word[0], .locked = m->token};
    int e = run_like(help, w, &like);
    /* else it is over, or another manager's */
    if (e && e != -ESRCH)
        kd_call3(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, e < 0 ? -e : e);
    s->outcome = e;
}

bool stacked_serve(struct stacked *s, int at)
{
    struct kd_message m = {0};
    if (kd_call3(KD_PORT_RECEIVE, at, (long)&m, -1)) return false;
    if (m.kind == (uint32_t)KD_MSG_PAGE) serve_stacked_page(s, &m);
    if (m.kind == (uint32_t)KD_MSG_COMMIT) serve_stacked_commit(s, &m);
    return true;
}

static void *serve_all(struct stacked *s, int at)
{
    while (stacked_serve(s, at)) {}
    __atomic_fetch_sub(&s->serving, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *pages_main(void *s) { return serve_all(s, ((struct stacked *)s)->port); }
static void *commits_main(void *s) { return serve_all(s, ((struct stacked *)s)->commit_port); }

long stacked_make(struct stacked *s, const int *ports, unsigned count, uint64_t pages)
{
    s->pages = pages;
    s->port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (!s->commit_port) s->commit_port = s->port;
    long e = kd_call3(KD_PORT_BELOW, s->commit_port, (long)ports, count);
    if (e) return e;
    struct kd_object_create c = {.port = s->port, .commit_port = s->commit_port,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .cookie = s->key,
                                 .pages = pages, .name = "stacked"};
    s->object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    s->base = c.base;
    return s->object < 0 ? s->object : 0;
}

long stacked_start(struct stacked *s, const int *ports, unsigned count, uint64_t pages,
                   unsigned threads)
{
    s->commit_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long e = stacked_make(s, ports, count, pages);
    if (e) return e;
    s->serving = (int)threads + 1;
    pthread_create(&s->pager, NULL, pages_main, s);
    for (unsigned i = 0; i < threads; i++) pthread_create(&s->committer, NULL, commits_main, s);
    return kd_call3(KD_SPACE_ATTACH, getpid(), s->object, KD_RIGHT_READ | KD_RIGHT_WRITE);
}
