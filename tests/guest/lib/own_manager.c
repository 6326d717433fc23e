/* own_manager.c - a manager of one object, and transactions on it by the bare calls. */
#include <sys/mman.h>

#include "own_manager.h"

int port, commit_port, object;
uint64_t base, next_csn = 1;
uint8_t (*home)[KD_PAGE_BYTES];
_Atomic long commits_seen, pages_logged;
_Atomic uint64_t asked_most, asked_alone;
_Atomic int held_commits, fail_pages, hold_commits;
static struct own_manager own;

/* ---- the manager ---- */

void serve_page(struct kd_message *m)
{
    asked_most = m->word[2] > asked_most ? m->word[2] : asked_most;
    asked_alone += (m->word[3] & KD_PAGE_ALONE) != 0;
    if (fail_pages) {
        kd_call4(KD_OBJECT_FAIL, object, (long)m->word[1], 1, EIO);
        return;
    }
    bool known = m->word[1] < own.home_pages;
    struct kd_supply s = {.object = object, .source = known ? KD_SUPPLY_MEMORY : KD_SUPPLY_ZERO,
                          .rights = own.closed ? 0 : KD_READ | KD_WRITE, .page = m->word[1],
                          .count = 1,
                          .memory = known ? home[m->word[1]] : NULL};
    long e = kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    if (e == -ENOMEM)
        kd_call4(KD_OBJECT_FAIL, object, (long)m->word[1], 1, ENOMEM);
    else if (e)
        printf("# supply failed: %ld\n", e);
}

/* The runs of one KD_TXN_DIFF go home. */
static void take_runs(uint8_t *runs, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        struct kd_run *r = (struct kd_run *)(runs + at);
        if (r->page < own.home_pages)
            memcpy(home[r->page] + r->offset, r + 1, r->bytes);
        at += sizeof *r + ((r->bytes + 7u) & ~7u);
        pages_logged += (r->flags & KD_RUN_LAST) != 0;
    }
}

static long take_view(uint64_t view, uint64_t token)
{
    static uint8_t buffer[1 << 20];
    struct kd_diff d = {.view = view, .token = token, .full_below = 0, .cursor = 0};
    while (d.cursor != ~0ull) {
        d.buffer = buffer;
        d.buffer_bytes = sizeof buffer;
        long e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
        if (e)
            return e;
        take_runs(buffer, d.buffer_bytes);
    }
    return 0;
}

/* The changes of a transaction, and of its helpers (KD_MSG_COMMIT). */
static long take_diff(const struct kd_message *m)
{
    long e = take_view(m->word[0], m->token);
    for (unsigned v = 0; v < KD_VIEW_MAX && !e; v++)
        if (m->word[4 + v / 64] >> v % 64 & 1)
            e = take_view(v, m->token);
    return e;
}

void serve_commit(struct kd_message *m)
{
    while (hold_commits) {
        held_commits = 1;
        pause_ms(1);
    }
    held_commits = 0;
    long e = take_diff(m);
    if (e) {
        printf("# diff: %ld\n", e);
        kd_call3(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, EIO);
        return;
    }
    struct kd_publish p = {m->word[0], m->token, next_csn++};
    e = kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0);
    if (e)
        printf("# publish: %ld\n", e);
    commits_seen++;
}

static void *manager(void *receives)
{
    uint8_t buffer[KD_PAGE_BYTES];
    for (;;) {
        struct kd_message m = {.buffer = buffer, .buffer_bytes = sizeof buffer};
        long e = kd_call3(KD_PORT_RECEIVE, *(int *)receives, (long)&m, -1);
        if (e) {
            printf("# receive: %ld\n", e);
            return NULL;
        }
        if (own.messages && own.messages(&m))
            continue;
        if (m.kind == (uint32_t)KD_MSG_PAGE)
            serve_page(&m);
        else if (m.kind == (uint32_t)KD_MSG_COMMIT)
            serve_commit(&m);
    }
}

bool start_manager(struct own_manager how)
{
    own = how;
    if (!own.home_pages)
        own.home_pages = own.pages;
    home = mmap(NULL, own.home_pages * KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    commit_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = port, .commit_port = commit_port,
                                 .flags = KD_OBJECT_TRANSACTIONAL | own.flags, .cookie = 7,
                                 .base = KD_STORE_BASE, .pages = own.pages, .name = "test"};
    object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    base = c.base;
    pthread_t t;
    pthread_create(&t, NULL, manager, &port);
    pthread_create(&t, NULL, manager, &commit_port);
    return home != MAP_FAILED && object >= 0
           && kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE) == 0;
}

/* ---- transactions ---- */

__thread struct context *mine;

void in_view(struct context *c)
{
    if (!c->view)
        c->view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    mine = c;
    kd_call3(KD_VIEW_ENTER, c->view, 0, 0);
}

void view_anew(void)
{
    if (mine)
        kd_call3(KD_HANDLE_CLOSE, mine->view, 0, 0);
    mine = NULL;
}

static void on_abort(long reason) { longjmp(mine->env, (int)reason); }

/* mine->begin becomes *how, and aborts by the system go to mine->env. */
static void prepare_begin(const struct kd_begin *how)
{
    mine->begin = *how;
    mine->begin.entry = (uint64_t)on_abort;
    mine->begin.stack = (uint64_t)(mine->stack + sizeof mine->stack - 8);
}

long txn_open(struct context *c, struct kd_begin how)
{
    in_view(c);
    prepare_begin(&how);
    return kd_call3(KD_TXN_BEGIN, (long)&mine->begin, 0, 0);
}

/* One try, with mine->begin. *again: its commit was a deadlock's victim. */
static int run_once(int (*body)(void *), void *arg, bool *again)
{
    *again = false;
    long e = kd_call3(KD_TXN_BEGIN, (long)&mine->begin, 0, 0); /* a retry keeps the ticket */
    if (e)
        return (int)e;
    int r = body(arg);
    if (r) {
        kd_call3(KD_TXN_ABORT, r, 0, 0);
        return r;
    }
    struct kd_commit k = {.port = -1};
    e = kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
    *again = e == -EDEADLK;
    return (int)e;
}

int run_like(int (*body)(void *), void *arg, const struct kd_begin *like)
{
    static __thread struct context context;
    if (!mine) {
        mine = &context;
        mine->view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
        if (mine->view < 0 || kd_call3(KD_VIEW_ENTER, mine->view, 0, 0))
            return -1;
    }
    prepare_begin(like);
    for (;;) {
        int reason = setjmp(mine->env);
        if (reason && reason != EDEADLK)
            return -reason;
        if (reason)
            mine->aborts++;
        bool again;
        int e = run_once(body, arg, &again);
        if (!again)
            return e;
    }
}

int run(int (*body)(void *), void *arg, unsigned mode, unsigned timeout_ms)
{
    return run_like(body, arg, &(struct kd_begin){.mode = mode, .timeout_ms = timeout_ms});
}

volatile uint64_t *word_of(uint64_t page, unsigned i)
{
    return (volatile uint64_t *)(base + page * KD_PAGE_BYTES) + i;
}

bool page_resident(uint64_t page)
{
    uint8_t bits = 0;
    kd_call4(KD_OBJECT_INFO, object, (long)page, 1, (long)&bits);
    return bits & KD_PAGE_RESIDENT;
}

long check(void) { return kd_call3(KD_CHECK, 0, 0, 0); }
