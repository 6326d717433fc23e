/* misuse.c - calls that a manager should not make. */
#include "stress.h"

static int store_one(void *arg) { *word_of(LARGE, (uintptr_t)arg, 1) += 1; return 0; }
static void *publish_it(void *arg) { return (void *)call(KD_TXN_PUBLISH, (long)arg, 1, 0); }

static void *own_server(void *arg)
{
    /* publishes twice at once, one list with a view twice, then one with a forged token */
    int at = *(int *)arg;
    for (int round = 0; round < 200; round++) {
        struct kd_message m = {0};
        if (call(KD_PORT_RECEIVE, at, (long)&m, -1)) return (void *)1;
        struct kd_publish p = {m.word[0], m.token, (uint64_t)round * 2 + 1};
        struct kd_publish twice[2] = {p, p};
        twice[1].csn++;
        struct kd_diff d = {.view = p.view, .token = p.token};
        static uint8_t buffer[16384];
        d.buffer = buffer;
        d.buffer_bytes = sizeof buffer;
        call(KD_TXN_DIFF, (long)&d, 0, 0);
        struct kd_publish forged = {p.view, p.token + 1, p.csn};
        if (call(KD_TXN_PUBLISH, (long)&forged, 1, 0) != -ESRCH ||
            call(KD_TXN_PUBLISH, (long)twice, 2, 0) != -ESRCH)
            return (void *)2;
        pthread_t t;
        pthread_create(&t, NULL, publish_it, &p);
        long mine = call(KD_TXN_PUBLISH, (long)&p, 1, 0);
        void *other;
        pthread_join(t, &other);
        if ((mine == 0) == (other == NULL)) return (void *)3;
    }
    return NULL;
}

int bad_manager(void)
{
    static int at, object;
    static const uint64_t base = KD_STORE_BASE + (8ull << 30);
    uint64_t saved = objects[LARGE].base;
    int result = 0;
    at = (int)call(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = at, .commit_port = at, .base = base, .pages = 64,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "bad"};
    object = (int)call(KD_OBJECT_CREATE, (long)&c, 0, 0);
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_ZERO, .count = 64,
                          .rights = KD_READ | KD_WRITE};
    if (object < 0 || call(KD_SPACE_ATTACH, getpid(), object, 3) ||
        call(KD_OBJECT_SUPPLY, (long)&s, 0, 0))
        return 1;
    pthread_t t;
    void *r;
    pthread_create(&t, NULL, own_server, &at);
    objects[LARGE].base = base;
    for (uintptr_t i = 0; i < 200 && !result; i++) result = run(store_one, (void *)(i % 8), 0, 0);
    pthread_join(t, &r);
    if (r || result) return 10 + (int)(intptr_t)r;
    call(KD_OBJECT_DESTROY, object, 0, 0);
    /* its address answers nothing any more, and the next one's pages are its own */
    object = (int)call(KD_OBJECT_CREATE, (long)&c, 0, 0);
    s.object = object;
    if (object < 0 || call(KD_SPACE_ATTACH, getpid(), object, 3) ||
        call(KD_OBJECT_SUPPLY, (long)&s, 0, 0))
        return 20;
    uint64_t *w = (uint64_t *)base;
    uint64_t ticket = 0;
    if (setjmp(me.env) || begin(KD_SERIALISABLE, &ticket, 0)) return 21;
    result = *(volatile uint64_t *)w != 0;
    call(KD_TXN_ABORT, 0, 0, 0);
    objects[LARGE].base = saved;
    call(KD_HANDLE_CLOSE, object, 0, 0); /* never destroyed: lives until the process ends */
    call(KD_PORT_NOTIFY, at, 1, 0);
    call(KD_HANDLE_CLOSE, at, 0, 0);
    return result ? 22 : check() != 0;
}

static _Atomic int destroy_ready;
static void *diff_for_ever(void *arg)
{
    static uint8_t buffer[1 << 17];
    int at = *(int *)arg;
    struct kd_message m = {0};
    if (call(KD_PORT_RECEIVE, at, (long)&m, 10000)) return NULL;
    destroy_ready = 1;
    for (int i = 0; i < 3000; i++) {
        struct kd_diff d = {.view = m.word[0], .token = m.token, .buffer = buffer,
                            .buffer_bytes = sizeof buffer, .full_below = ~0ull};
        if (call(KD_TXN_DIFF, (long)&d, 0, 0)) break;
        if (d.pages == 0) break; /* the object is gone */
    }
    call(KD_TXN_REFUSE, (long)m.word[0], (long)m.token, EIO);
    return NULL;
}
static int store_many(void *arg)
{
    for (uint64_t i = 0; i < 24; i++) *word_of(LARGE, i, 1) += 1;
    (void)arg;
    return 0;
}
static void *store_many_thread(void *arg)
{
    int e = run(store_many, arg, KD_SERIALISABLE, 0);
    leave();
    return (void *)(intptr_t)e;
}
int destroyed_under_diff(void)
{
    static int at;
    uint64_t saved = objects[LARGE].base;
    for (int round = 0; round < 10; round++) {
        at = (int)call(KD_PORT_CREATE, 0, 0, 0);
        struct kd_object_create c = { .port = at,
                                      .commit_port = at,
                                      .base = KD_STORE_BASE + (9ull << 30),
                                      .pages = 64,
                                      .flags = KD_OBJECT_TRANSACTIONAL,
                                      .name = "bad" };
        int object = (int)call(KD_OBJECT_CREATE, (long)&c, 0, 0);
        struct kd_supply s = {.object = object, .source = KD_SUPPLY_ZERO, .count = 64,
                              .rights = KD_READ | KD_WRITE};
        if (object < 0 || call(KD_SPACE_ATTACH, getpid(), object, 3) ||
            call(KD_OBJECT_SUPPLY, (long)&s, 0, 0))
            return 1;
        objects[LARGE].base = c.base;
        destroy_ready = 0;
        pthread_t server, client;
        void *r;
        pthread_create(&server, NULL, diff_for_ever, &at);
        pthread_create(&client, NULL, store_many_thread, NULL);
        while (!destroy_ready) nap(1);
        nap((unsigned)(next(&seed) % 3));
        if (call(KD_OBJECT_DESTROY, object, 0, 0)) return 2;
        pthread_join(client, &r);
        pthread_join(server, NULL);
        if ((int)(intptr_t)r != -EIO && (int)(intptr_t)r != -EOWNERDEAD) return 3;
        call(KD_HANDLE_CLOSE, at, 0, 0);
    }
    objects[LARGE].base = saved;
    return check() != 0;
}

int nonsense(void)
{
    int bad = 0;
    for (int i = 0; i < 20000; i++) {
        uint64_t v = next(&seed) % 140, token = next(&seed) % 100;
        struct kd_publish p = {v, token, 1};
        uint64_t mask[2] = {next(&seed), next(&seed)};
        switch (next(&seed) % 6) {
        case 0: bad |= call(KD_TXN_PUBLISH, (long)&p, 1, 0) == 0; break;
        case 1: bad |= call(KD_TXN_REFUSE, (long)v, (long)token, EIO) == 0; break;
        case 2:
            bad |= kd_call6(KD_OBJECT_GRANT, objects[ASKED].handle, (long)v % FEW, 1, KD_READ,
                            1 << 30 | (long)token, 0) == 0;
            break;
        case 3: bad |= call(KD_OBJECT_CLEANED, (int)v, (long)token, 3) == 0 && v > 20; break;
        case 4: bad |= call(KD_VIEW_WAIT, (long)v, (long)mask, 0) == 0 && v >= KD_VIEW_MAX; break;
        case 5:
            bad |=
                kd_call4(KD_OBJECT_FAIL, objects[LARGE].handle, (long)(PAGES + token), 1, EIO) == 0;
        }
    }
    return bad;
}

int all_views(void)
{
    int own[KD_VIEW_MAX], n = 0, h;
    while (n < KD_VIEW_MAX && (h = (int)call(KD_VIEW_CREATE, 0, 0, 0)) >= 0) own[n++] = h;
    int e = n < KD_VIEW_MAX ? h : 0;
    for (int i = 0; i < n; i++) call(KD_HANDLE_CLOSE, own[i], 0, 0);
    return e == -ENFILE && n > 32 ? 0 : -1;
}

static int ask_ok(void *arg)
{
    return *word_of(ASKED, (uintptr_t)arg, 50) != computed(ASKED, (uintptr_t)arg, 50);
}
int asking(void)
{
    int bad = 0;
    asked_error = EACCES;
    for (uintptr_t p = 0; p < 32; p++) {
        int e = run(ask_ok, (void *)p, KD_SERIALISABLE, 0);
        bad |= e != (p % 8 == 7 ? -EACCES : 0);
    }
    asked_error = 0;
    return bad || asks < 32;
}
