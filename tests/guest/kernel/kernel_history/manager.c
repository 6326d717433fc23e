/*
 * manager.c - the manager of parts OWN and SCARCE: it commits in groups, and recalls rights at
 * random.
 */
#include <pthread.h>

#include "history.h"

uint64_t base, hog_base, *stamps;
int control = -1, object, hog, stamp_object, copies[COPIES];
uint64_t copies_base[COPIES];
static int port, commit_port;
uint64_t home[PAGES_MAX][WORDS], home_csn[PAGES_MAX];
static uint64_t last_csn;
uint64_t seed, groups, recalls, own_base;

static void serve_page(const struct kd_message *m)
{
    if (m->word[0] >= COPY_COOKIE) {
        copies_asked(m);
        return;
    }
    static uint64_t page[KD_PAGE_BYTES / 8];
    int own = m->word[0] == 0;
    struct kd_supply s = {.object = own ? object : m->word[0] == 1 ? hog : stamp_object, .count = 1,
                          .source = own ? KD_SUPPLY_MEMORY : KD_SUPPLY_ZERO, .page = m->word[1],
                          .rights = KD_READ | KD_WRITE, .memory = page};
    for (unsigned w = 0; own && w < WORDS; w++)
        page[w * STEP] = home[m->word[1]][w];
    if (own)
        s.csn = home_csn[m->word[1]];
    if (m->word[0] == 1) {
        s.page &= ~(uint64_t)(HOG_GROUP - 1);
        s.count = HOG_GROUP;
    }
    call(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

static void serve_clean(void)
{
    for (uint64_t p = 0; p < PAGES_MAX; p++)
        if (home_csn[p])
            call(KD_OBJECT_CLEANED, object, (long)p, (long)home_csn[p]);
}

static int runs_take(const uint8_t *at, uint64_t bytes, uint64_t csn)
{
    for (const uint8_t *end = at + bytes; at < end;) {
        const struct kd_run *r = (const void *)at;
        const uint64_t *from = (const void *)(r + 1);
        if (r->cookie >= COPY_COOKIE)
            copies_written(r);
        for (unsigned o = r->offset; o < (unsigned)r->offset + r->bytes; o += 8)
            if (o / 8 % STEP == 0)
                home[r->page][o / 8 / STEP] = from[(o - r->offset) / 8];
        home_csn[r->page] = csn;
        at += sizeof *r + ((r->bytes + 7u) & ~7u);
    }
    return 0;
}

static int commit_read(const struct kd_message *m, struct kd_publish *p)
{
    static uint8_t buffer[1 << 17];
    struct kd_diff d = {.view = m->word[0], .token = m->token};
    while (d.cursor != ~0ull) {
        d.buffer = buffer;
        d.buffer_bytes = sizeof buffer;
        if (call(KD_TXN_DIFF, (long)&d, 0, 0))
            return 0;
        runs_take(buffer, d.buffer_bytes, last_csn + 1);
    }
    *p = (struct kd_publish){m->word[0], m->token, ++last_csn};
    return 1;
}

/* All that wait are published in one step. */
static void *committer(void *arg)
{
    uint64_t rng = seed;
    for (;;) {
        struct kd_publish list[WORKERS];
        struct kd_message m = {.handle = -1};
        long count = 0, e = call(KD_PORT_RECEIVE, commit_port, (long)&m, -1);
        for (; e == 0; e = count < WORKERS ? call(KD_PORT_RECEIVE, commit_port, (long)&m, 0) : -1)
            if (m.kind == (uint32_t)KD_MSG_COMMIT && commit_read(&m, &list[count]))
                count++;
        if (count && call(KD_TXN_PUBLISH, (long)list, count, 0))
            return arg;
        groups += count > 1;
        if (next(&rng) % 8 == 0)        /* rights come and go, used or not */
            recalls += kd_call4(KD_OBJECT_RECALL, object, (long)(next(&rng) % 16),
                                (long)(next(&rng) % 64), next(&rng) % 2 ? KD_READ : 0) == 0;
    }
}

static void *pager(void *arg)
{
    for (;;) {
        struct kd_message m = {.handle = -1};
        if (call(KD_PORT_RECEIVE, port, (long)&m, -1))
            return arg;
        if (m.kind == (uint32_t)KD_MSG_PAGE)
            serve_page(&m);
        else if (m.kind == (uint32_t)KD_MSG_RECALLED)
            copies_recalled();
        else if (m.kind == (uint32_t)KD_MSG_CLEAN)
            serve_clean();
    }
}

static int object_make(uint64_t cookie, uint64_t pages, unsigned flags, uint64_t *at)
{
    struct kd_object_create c = { .port = port, .commit_port = commit_port, .cookie = cookie,
                                  .pages = pages, .flags = flags,
                                  .name = "history" };
    int handle = (int)call(KD_OBJECT_CREATE, (long)&c, 0, 0);
    *at = c.base;
    return handle < 0 || call(KD_SPACE_ATTACH, getpid(), handle, KD_RIGHT_READ | KD_RIGHT_WRITE)
               ? -1
               : handle;
}

int manager_start(void)
{
    pthread_t t;
    uint64_t at;
    port = (int)call(KD_PORT_CREATE, 0, 0, 0);
    commit_port = (int)call(KD_PORT_CREATE, 0, 0, 0);
    control = (int)call(KD_PORT_CREATE, 0, 0, 0);
    object = object_make(0, PAGES_MAX, KD_OBJECT_TRANSACTIONAL, &own_base);
    hog = object_make(1, HOG_PAGES, KD_OBJECT_TRANSACTIONAL, &hog_base);
    stamp_object = object_make(2, 1, 0, &at);
    bool good = true;
    for (unsigned i = 0; i < COPIES; i++)
        good &= (copies[i] = object_make(COPY_COOKIE + i, PAGES_MAX, KD_OBJECT_TRANSACTIONAL,
                                         &copies_base[i])) >= 0;
    stamps = (uint64_t *)at;
    return good && object >= 0 && hog >= 0 && stamp_object >= 0 &&
           !call(KD_NAME_SET, (long)"history", control, 0) &&
           !pthread_create(&t, NULL, pager, NULL) && !pthread_create(&t, NULL, committer, NULL);
}
