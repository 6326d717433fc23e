/*
 * layouts.c - for tests of sites: a container whose accounts get another layout while a program
 * that was built for the old one goes on (user/sites/spare.md).
 *
 *     layouts NAME LOOK WORD ...     LOOK: old or new, which the program is built for
 *
 *     make=N     makes the container, in the old layout, with N accounts in a ring, and NAME.new,
 *                which is empty, in the new one; N shares no factor with 85
 *     open       waits until the container is there, and may be opened
 *     ups=N      N transactions: one up on an account, and on to the next; after a death it looks
 *                whether the last one was made
 *     through=N  the same until one has met a death, and N more
 *     check      follows the ring: is all there that was counted?
 *     pause=MS   says which was the longest of the transactions; it may take so long
 *     spare      waits until the store manager here is a spare, named, and groups come
 *     ready      waits until that has made all of another layout
 *     try        opens it once
 *     fail=ERRNO the next word has to fail so
 */
#include <errno.h>
#include <pstore.h>
#include <site.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <katydid/call.h>

#include "user/store/copy_protocol.h"

#define OLD "order little\ntype 16 struct root\n0 ptr first\n8 u64 count\n" \
            "type 48 struct account\n0 ptr next\n8 i64 amount\n16 u64 limit\n24 char*24 owner\n"
#define NEW "order little\ntype 16 struct root\n0 u64 count\n8 ptr first\n" \
            "type 48 struct account\n0 char*24 owner\n24 ptr next\n32 i32 amount\n36 u32 limit\n" \
            "40 u32 kind\n44 u32 since\n"

enum { ACCOUNTS = 100100,
       COUNTED = 50,                    /* groups, so that the container is made */
       STRIDE = 85 };                   /* so that one transaction's page is not the next one's */
struct old_root { struct old_account *first; uint64_t count; };
struct old_account { struct old_account *next; int64_t amount; uint64_t limit; char owner[24]; };
struct new_root { uint64_t count; struct new_account *first; };
struct new_account {
    char owner[24];
    struct new_account *next;
    int32_t amount;
    uint32_t limit, kind, since;
};

static const char *name;
static bool is_new;
static ps_container *c;
static uint64_t longest_ms;

static void pause_ms(void) { nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool died(int error)
{
    bool dead = error == -EOWNERDEAD || error == -ENOTCONN || error == -ECANCELED;
    if (dead) pause_ms();
    return dead;
}

static int opens(const char *container, bool in_new, int flags)
{
    struct ps_layout root = {"struct root", 1 + in_new, 16};
    int error = ps_site_declare(!strchr(container, ':') ? NULL : in_new ? NEW : OLD);
    if (!error) c = ps_open(container, flags, &root);
    return error ? error : c ? 0 : -errno;
}

static int describe_new(void *unused)
{
    (void)unused;
    return ps_root(c) ? ps_site_describe(c, NEW) : -errno;
}

static int make(void *number)
{
    static struct old_account *all[ACCOUNTS];
    uint64_t n = *(uint64_t *)number < ACCOUNTS ? *(uint64_t *)number : ACCOUNTS;
    struct old_root *root = ps_root(c);
    int error = root ? ps_site_describe(c, OLD) : -errno;
    for (uint64_t i = 0; !error && i < n; i++) {
        all[i] = ps_alloc_as(c, sizeof *all[i], NULL, "struct account");
        if (!all[i]) return -errno;
        snprintf(all[i]->owner, sizeof all[i]->owner, "owner %llu", (unsigned long long)i);
        all[i]->limit = i;
    }
    for (uint64_t i = 0; !error && i < n; i++) all[i]->next = all[(i + STRIDE) % n];
    if (!error) root->first = all[0];
    return error;
}

/* The machine may have been started again. */
static int makes(uint64_t number)
{
    char like[80];
    snprintf(like, sizeof like, "%s.new", name);
    int error = opens(like, true, PS_CREATE | PS_WRITE);
    if (!error) error = ps_transaction(describe_new, NULL);
    if (!error) error = opens(name, false, PS_CREATE | PS_WRITE);
    return error ? error : ps_transaction(make, &number);
}

static int up(void *unused)
{
    void *root = ps_root(c);
    (void)unused;
    if (!root) return -errno;
    if (is_new) {
        struct new_root *r = root;
        r->first->amount++;
        r->first = r->first->next;
        r->count++;
    } else {
        struct old_root *r = root;
        r->first->amount++;
        r->first = r->first->next;
        r->count++;
    }
    return 0;
}

static int count_look(void *number)
{
    const void *root = ps_root(c);
    if (!root) return -errno;
    *(uint64_t *)number = is_new ? ((const struct new_root *)root)->count
                                 : ((const struct old_root *)root)->count;
    return 0;
}

/* Nobody else counts: so what was acknowledged is there, and of what was not, all or nothing. */
static int ups(uint64_t times, bool met)
{
    uint64_t at, now, again = 0;
    int error;
    while (died(error = ps_transaction(count_look, &at))) continue;
    uint64_t begun = now_ms(), last = begun;
    for (uint64_t end = at + times; !error && at < end; at = now) {
        if (now_ms() - last > longest_ms) longest_ms = now_ms() - last;
        last = now_ms();
        error = ps_transaction(up, NULL);
        now = at + 1;
        if (!met) end = now + times;
        if (!died(error)) continue;
        met = true;
        while (died(error = ps_transaction(count_look, &now))) continue;
        again += !error && now == at;
        if (!error && now != at && now != at + 1) {
            printf("%llu were acknowledged, %llu are there\n", (unsigned long long)at,
                   (unsigned long long)now);
            error = -EIO;
        }
    }
    printf("counted to %llu in %llu ms, %llu of them begun again\n", (unsigned long long)at,
           (unsigned long long)(now_ms() - begun), (unsigned long long)again);
    return error;
}

struct found { uint64_t accounts, sum, count; bool wrong; };

static int walk(void *found)
{
    struct found *f = found;
    const void *root = ps_root(c), *first, *at;
    char owner[24];
    if (!root) return -errno;
    memset(f, 0, sizeof *f);
    f->count = is_new ? ((const struct new_root *)root)->count
                      : ((const struct old_root *)root)->count;
    first = at = is_new ? (const void *)((const struct new_root *)root)->first
                        : ((const struct old_root *)root)->first;
    do {
        const struct new_account *n = at;
        const struct old_account *o = at;
        unsigned long long limit = is_new ? n->limit : o->limit;
        snprintf(owner, sizeof owner, "owner %llu", limit);
        f->wrong |= strcmp(owner, is_new ? n->owner : o->owner) != 0;
        f->wrong |= is_new && (n->kind || n->since);
        f->sum += (uint64_t)(is_new ? n->amount : o->amount);
        f->accounts++;
        at = is_new ? (const void *)n->next : o->next;
    } while (at != first && f->accounts < ACCOUNTS);
    return 0;
}

static int check(void)
{
    struct found f;
    int error;
    while (died(error = ps_transaction(walk, &f))) continue;
    if (error) return error;
    printf("%llu accounts, %s, %llu of %llu counted\n", (unsigned long long)f.accounts,
           is_new ? "new" : "old", (unsigned long long)f.sum, (unsigned long long)f.count);
    return f.wrong || f.sum != f.count ? -EILSEQ : 0;
}

static int waits(bool ready)
{
    struct copy_status s;
    bool is = false;
    while (!is) {
        struct kd_message m = {.kind = COPY_STATUS, .buffer = &s, .buffer_bytes = sizeof s,
                               .handle = -1};
        long port = kd_call3(KD_NAME_FIND, (long)COPY_PORT, 0, 0);
        long r = port < 0 ? port : kd_call3(KD_PORT_CALL, port, (long)&m, 0);
        if (port >= 0) kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
        is = r >= 0 && m.status == 0 && s.is == COPY_SPARE && s.named && s.groups >= COUNTED;
        if (is && ready && s.recast.error) return s.recast.error;
        is = is && (!ready || (s.recast.all && !s.recast.wrong));
        pause_ms();
    }
    return 0;
}

static int word(const char *w, uint64_t n)
{
    int error = 0;
    if (!strncmp(w, "make", 4)) return makes(n);
    if (!strcmp(w, "open")) {
        for (bool later = true; later;) {
            error = opens(name, is_new, PS_WRITE);
            later = error == -ENOENT || error == -EACCES || died(error);
            if (later) pause_ms();
        }
        return error;
    }
    if (!strcmp(w, "try")) return opens(name, is_new, PS_WRITE);
    if (!strncmp(w, "ups", 3) || !strncmp(w, "through", 7)) return ups(n, w[0] == 'u');
    if (!strcmp(w, "check")) return check();
    if (!strcmp(w, "spare") || !strcmp(w, "ready")) return waits(w[0] == 'r');
    if (strncmp(w, "pause", 5)) return -EINVAL;
    printf("the longest pause took %llu ms\n", (unsigned long long)longest_ms);
    return longest_ms > n ? -ETIME : 0;
}

int main(int argc, char **argv)
{
    int wanted = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4) return 2;
    name = argv[1];
    is_new = !strcmp(argv[2], "new");
    for (int i = 3; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        uint64_t n = value ? strtoull(value + 1, NULL, 10) : 0;
        if (!strncmp(argv[i], "fail=", 5)) {
            wanted = -(int)n;
            continue;
        }
        int error = word(argv[i], n);
        if (error != wanted) {
            printf("%s: %s: %s (%d)\n", name, argv[i], ps_strerror(error), error);
            return 1;
        }
        wanted = 0;
    }
    return 0;
}
