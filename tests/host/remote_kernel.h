/* remote_kernel.h - the kernel of the site in test_remote.c: its views, pages and calls. Included
 * by that test alone. */
#ifndef KATYDID_REMOTE_KERNEL_H
#define KATYDID_REMOTE_KERNEL_H

static bool takes(const struct view *u, int page, int want)
{
    return u->used[page] && (want == SITE_EXCLUSIVE || u->used[page] == SITE_EXCLUSIVE);
}

static void waits_end(int page, int error, int rights);

static void program(struct view *v, bool again)
{
    struct view was = *v;
    *v = (struct view){.ticket = again ? was.ticket : ++w.ticket};
    for (int i = 0; i < OPS; i++) {
        v->page[i] = again ? was.page[i] : (int)any(PAGES);
        v->want[i] = again ? was.want[i] : 1 + (int)any(2);
    }
}

/* A question that the manager has not received yet is taken back. */
static void asks_no_more(struct view *v)
{
    for (unsigned i = 0; v->state == ASKS && i < w.port.count; i++) {
        struct kd_message *m = &w.port.m[(w.port.first + i) % QUEUE];
        if (m->kind != (uint32_t)KD_MSG_PAGE || m->word[6] != v->number) continue;
        m->kind = 0; /* heard, and nothing */
        v->state = RUNS;
        if (!w.page[v->page[v->op]].here) waits_end(v->page[v->op], 0, 0); /* others ask again */
    }
}

/* Its end, by itself or not: what it used is free, and the manager hears of it. */
static void view_ends(int i, bool again, bool begins)
{
    struct view *v = &w.view[i];
    asks_no_more(v);
    if (v->noted) PUSH(w.port, ((struct kd_message){.kind = (uint32_t)KD_MSG_RECALLED,
                                                    .word = {1 << 4}}));
    for (int k = 0; k < VIEWS; k++) {
        w.view[k].told &= ~(1 << i);
        w.view[k].waits &= ~(1 << i);
    }
    program(v, again);
    if (!again && !begins) v->state = ENDED;
    w.undone += again;
}

static bool cycle(int at, int to, int seen)
{
    const struct view *v = &w.view[at];
    int m = v->doomed || v->state == RUNS ? 0 : v->told | (v->state == BLOCKED ? v->waits : 0);
    for (int k = 0; k < VIEWS; k++)
        if (m >> k & 1 && (k == to || (!(seen >> k & 1) && cycle(k, to, seen | 1 << k))))
            return true;
    return false;
}

static void search(int i)
{
    if (!cycle(i, i, 1 << i)) return;
    w.view[i].doomed = true;
    w.circles++;
}

static void waits_end(int page, int error, int rights)
{
    w.page[page].asked = false;
    for (int i = 0; i < VIEWS; i++) {
        struct view *v = &w.view[i];
        if (v->state != ASKS || v->page[v->op] != page) continue;
        v->state = RUNS;
        v->doomed |= error != 0;
        v->given = rights;
        v->given_page = page;
    }
}

static void asks(int i)
{
    struct view *v = &w.view[i];
    int page = v->page[v->op];
    bool here = w.page[page].here;
    int access = v->want[v->op] == SITE_EXCLUSIVE ? KD_WRITE : KD_READ;
    v->state = ASKS;
    v->given = 0;
    v->number = 0;
    if (!here && w.page[page].asked) return;
    w.page[page].asked |= !here;
    v->number = ++w.questions;
    PUSH(w.port, ((struct kd_message){
        .kind = (uint32_t)KD_MSG_PAGE,
        .word = {1 << 4, (uint64_t)page, 1, (uint64_t)(access | (here ? KD_PAGE_HERE : 0)),
                 (uint64_t)i + 1, 0, v->number, v->ticket}}));
}

static int view_step(int i, bool begins)
{
    struct view *v = &w.view[i];
    if (v->doomed) return view_ends(i, true, true), 1;
    if (v->state == ASKS || v->state == ENDED) return 0;
    if (v->op == OPS) return view_ends(i, false, begins), 1;
    int page = v->page[v->op], want = v->want[v->op], waits = 0;
    int may = v->used[page] ? w.page[page].has : w.page[page].open;
    if (v->given && v->given_page == page && v->given > may) may = v->given;
    if (!w.page[page].here || (want > may && (want == SITE_EXCLUSIVE || !v->used[page])))
        return asks(i), 1;
    for (int k = 0; k < VIEWS; k++) {
        const struct view *u = &w.view[k];
        bool before = u->state == BLOCKED && u->page[u->op] == page && !v->used[page] &&
                      (v->state != BLOCKED || v->waits >> k & 1);
        if (k != i && (before || takes(u, page, want))) waits |= 1 << k;
    }
    bool same = v->state == BLOCKED && v->waits == waits;
    v->waits = waits;
    v->told = 0;
    v->state = waits ? BLOCKED : RUNS;
    if (waits) {
        search(i);
        return !same || v->doomed;
    }
    if (v->used[page] < want) v->used[page] = want;
    v->given = 0;
    v->op++;
    w.uses++;
    return 1;
}

static long recalled(int page, int to, bool drop, uint64_t users[2])
{
    bool used = false;
    for (int i = 0; i < VIEWS; i++) {
        struct view *v = &w.view[i];
        int right = v->used[page];
        if (v->given && v->given_page == page && v->given > right) right = v->given;
        if (right <= to) continue;
        users[0] |= 1u << i;
        v->noted = used = true;
    }
    if (w.page[page].open > to) w.page[page].open = to;
    if (!used && w.page[page].has > to) w.page[page].has = to;
    if (!used && drop) w.page[page].here = false;
    return used;
}

static int right_of(long access)
{
    return access & KD_WRITE ? SITE_EXCLUSIVE : access & KD_READ ? SITE_SHARED : SITE_NO;
}

static void gives(int page, int right)
{
    if (w.page[page].has < right) w.page[page].has = right;
    if (w.page[page].open < right) w.page[page].open = right;
    waits_end(page, 0, right);
}

static long list(struct kd_view_info *to)
{
    for (int i = 0; i < VIEWS; i++) {
        const struct view *v = &w.view[i];
        bool waits = v->state == ASKS || v->state == BLOCKED || v->given;
        to[i] = (struct kd_view_info){
            .view = (uint64_t)i, .ticket = v->ticket,
            .waits = {(uint64_t)(v->told | (v->state == BLOCKED ? v->waits : 0))},
            .page = v->elsewhere ? v->elsewhere
                    : waits      ? BASE + (uint64_t)v->page[v->op] * SITE_PAGE_BYTES : 0};
    }
    if (!w.far) return VIEWS;
    to[VIEWS] = (struct kd_view_info){.view = VIEWS, .pid = 9, .mode = KD_HOLDER};
    to[VIEWS + 1] = (struct kd_view_info){.view = VIEWS + 1, .pid = 9, .waits = {w.far}};
    return VIEWS + 2;
}

static long kd_call6(long number, long a, long b, long c, long d, long e, long f)
{
    (void)f;
    switch (number) {
    case KD_OBJECT_GRANT:
        if (!w.page[b].here) d = 0;
        return gives((int)b, right_of(d)), 0;
    case KD_OBJECT_RECALL:
        return recalled((int)b, right_of(d), d & KD_RECALL_DROP, (uint64_t *)e);
    case KD_OBJECT_INFO:
        *(uint8_t *)d = w.page[b].here ? KD_PAGE_RESIDENT : 0;
        if (e == KD_INFO_USES && any(2)) *(uint8_t *)d |= KD_PAGE_USED;
        return 0;
    case KD_OBJECT_CLEANED: return 0;
    case KD_OBJECT_FAIL:
        assert_int_equal(d, EDEADLK);   /* a victim of the home's: nobody else fails */
        return waits_end((int)b, (int)d, 0), 0;
    case KD_OBJECT_SUPPLY: {
        const struct kd_supply *s = (const void *)a;
        assert_int_equal(s->source, KD_SUPPLY_MEMORY | KD_SUPPLY_NEWER); /* SV4 */
        if (!w.page[s->page].here) w.page[s->page].has = w.page[s->page].open = 0;
        w.page[s->page].here = true;
        return gives((int)s->page, right_of((long)s->rights)), 0;
    }
    case KD_VIEW_WAIT:
        w.view[a].told |= (int)*(uint64_t *)b & ~(1 << a);
        return search((int)a), 0;
    case KD_VIEW_ABORT: return aborted |= 1u << a, 0;
    case KD_VIEW_LIST: return list((struct kd_view_info *)a);
    default: fail_msg("call %ld", number); return c;
    }
}

static int port_step(void)
{
    if (w.held.is && (!any(3) || !w.port.count)) {
        w.held.is = false;
        page_asked(&w.held.m);
        return 1;
    }
    if (!w.port.count) return 0;
    struct kd_message m = PULL(w.port);
    if (m.kind == (uint32_t)KD_MSG_RECALLED)
        pages_recalled(m.word[0]);
    else if (m.kind != (uint32_t)KD_MSG_PAGE) return 1;
    else if (!w.held.is && !any(4)) /* a thread has it, and others go on */
        w.held.m = m, w.held.is = true;
    else
        page_asked(&m);
    return 1;
}

#endif
