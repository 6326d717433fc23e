/*
 * pstore_encoder.c - the four ways in which a container's commits are logged.
 *
 * Aim     with each encoder transactions keep what they stored and only that, beside readers that
 *         must never see half of one; a death of the manager in the middle (a power cut for the
 *         store) loses nothing; the encoder outlives it and can be changed; FULL logs more than
 *         DIFF, ADAPTIVE no more than the better of both; RANGES logs what was declared, undoes or
 *         in strict mode reports the rest.
 * Method  writers add the same number to a word of each of several pages, readers compare the
 *         words. The log's bytes are the store's own counters.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "pstore_test.h"
#include "store_protocol.h"

enum { PAGES = 8, ROUNDS = 60, WRITERS = 3, WORDS = 480 };

struct array { uint64_t word[WORDS]; char gap[4096 - WORDS * 8 - 64]; };
struct root { struct array *of[PAGES]; };
static const char *const names[] = {"diff", "full", "ranges", "adaptive", "compressed",
                                    "operations"};
static ps_container *box;
static int encoder_now;
static _Atomic int torn, stop;

static int build(void *unused)
{
    (void)unused;
    struct root *r = ps_root(box);
    ps_touch(r, sizeof *r);
    for (int i = 0; i < PAGES; i++) r->of[i] = ps_new(box, struct array, NULL);
    return 0;
}

static int add(void *arg)
{
    struct root *r = ps_root(box);
    uint64_t at = *(unsigned *)arg % WORDS;
    for (int i = 0; i < PAGES; i++) {
        uint64_t *w = &r->of[i]->word[at];
        if (encoder_now == PS_ENCODE_RANGES) ps_touch(w, sizeof *w);
        ++*w;
    }
    return 0;
}

static int compare(void *unused)
{
    (void)unused;
    struct root *r = ps_root(box);
    for (int w = 0; w < WORDS; w++)
        for (int i = 1; i < PAGES; i++) torn += r->of[i]->word[w] != r->of[0]->word[w];
    return 0;
}

static uint64_t sum;
static int sum_words(void *unused)
{
    (void)unused;
    struct root *r = ps_root(box);
    sum = 0;
    for (int w = 0; w < WORDS; w++) sum += r->of[0]->word[w];
    return 0;
}

static int rounds(void) { return tap_long() ? ROUNDS : ROUNDS / 3; }
static void *writer(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    long bad = 0;
    for (int i = 0; i < rounds(); i++) {
        seed = seed * 1103515245 + 12345;
        unsigned at = seed >> 8;
        bad += ps_transaction(add, &at) != 0;
    }
    return (void *)bad;
}

static void *reader(void *unused)
{
    struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    long bad = 0;
    while (!stop) bad += ps_transaction_opt(compare, unused, &snapshot) != 0;
    return (void *)bad;
}

static int listed(const char *name)
{
    struct ps_info info[16];
    int n = ps_list(info, 16);
    for (int i = 0; i < n; i++)
        if (!strcmp(info[i].name, name)) return info[i].encoder;
    return -1;
}

/* Ends the manager; init starts it again, and recovery follows. 0, or what a transaction says
 * then. */
static int manager_dies(void)
{
    int pid = store_pid(), r = -ENOTCONN;
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    while (store_pid() == pid) pause_ms(1);
    for (int i = 0; i < 20000; i++) {
        r = ps_transaction(sum_words, NULL);
        if (r != -EOWNERDEAD && r != -ENOTCONN) break;
        pause_ms(10);
    }
    return r;
}

static void test_readers_and_death(int encoder)
{
    pthread_t thread[WRITERS + 1];
    void *result;
    long bad = 0;
    encoder_now = encoder;
    torn = stop = 0;
    is(ps_encoder(box, encoder), 0, names[encoder]);
    ps_transaction(sum_words, NULL);
    uint64_t before = sum;
    for (int i = 0; i < WRITERS; i++)
        pthread_create(&thread[i], NULL, writer, (void *)(uintptr_t)(encoder * 100 + i + 1));
    pthread_create(&thread[WRITERS], NULL, reader, NULL);
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(thread[i], &result);
        bad += (long)result;
    }
    stop = 1;
    pthread_join(thread[WRITERS], &result);
    is(bad + (long)result, 0, "writers and a snapshot's reader go on beside each other");
    is(torn, 0, "no half of a transaction is seen");
    is(manager_dies(), 0, "the manager died and is found again");
    is((long)(sum - before), WRITERS * rounds(), "every commit is still there");
    ps_transaction(compare, NULL);
    is(torn, 0, "as a whole");
    is(listed("encoders"), encoder, "the encoder, too");
}

/* ---- what is logged ---- */

struct fill { uint64_t from, count, value; };
static int fill(void *arg)
{
    const struct fill *f = arg;
    struct root *r = ps_root(box);
    for (int i = 0; i < PAGES; i++) {
        if (encoder_now == PS_ENCODE_RANGES) ps_touch(&r->of[i]->word[f->from], f->count * 8);
        for (uint64_t w = f->from; w < f->from + f->count; w++) r->of[i]->word[w] = f->value + w;
    }
    return 0;
}

/* Log bytes of ten commits that change `count` words of each page. */
static long logged(int encoder, uint64_t count)
{
    struct ps_stats a, b;
    encoder_now = encoder;
    ps_encoder(box, encoder);
    for (uint64_t i = 0; i < 2; i++) ps_transaction(fill, &(struct fill){0, count, 1000 + i});
    ps_stats(&a);
    for (uint64_t i = 0; i < 10; i++)
        ps_transaction(fill, &(struct fill){ 0, count, 2000 + i * 1000 });
    ps_stats(&b);
    return (long)(b.log_bytes - a.log_bytes);
}

static void test_bytes(void)
{
    long few[4], many[4], operations = logged(PS_ENCODE_OPERATIONS, 4);
    for (int e = 0; e < 4; e++) {
        few[e] = logged(e, 4);
        many[e] = logged(e, WORDS);
        printf("# %s: %ld bytes for ten commits of few words, %ld of nearly all\n", names[e],
               few[e], many[e]);
    }
    tap_ok(few[PS_ENCODE_FULL] >= 10 * PAGES * 4096, "FULL logs whole pages");
    tap_ok(few[PS_ENCODE_DIFF] * 4 < few[PS_ENCODE_FULL], "DIFF logs what differs");
    tap_ok(few[PS_ENCODE_RANGES] * 4 < few[PS_ENCODE_FULL], "RANGES logs what was declared");
    tap_ok(few[PS_ENCODE_ADAPTIVE] * 4 < few[PS_ENCODE_FULL],
           "ADAPTIVE logs what differs, if little");
    tap_ok(operations <= few[PS_ENCODE_DIFF], "OPERATIONS not more than that");
    tap_ok(many[PS_ENCODE_ADAPTIVE] <= many[PS_ENCODE_FULL] * 11 / 10, "and whole pages, if much");
}

/* ---- ranges ---- */

static int store_beside(void *unused)
{
    (void)unused;
    struct root *r = ps_root(box);
    ps_touch(&r->of[0]->word[100], 8);
    r->of[0]->word[100] = 77;
    r->of[0]->word[300] = 88; /* not declared */
    r->of[1]->word[100] = 99; /* nor this one's page */
    return 0;
}
static uint64_t found[3];
static int look_beside(void *unused)
{
    (void)unused;
    struct root *r = ps_root(box);
    found[0] = r->of[0]->word[100], found[1] = r->of[0]->word[300], found[2] = r->of[1]->word[100];
    return 0;
}
static int allocate(void *arg)
{
    struct array *a = ps_new(box, struct array, NULL);
    a->word[7] = 7; /* new: declared with its page */
    *(struct array **)arg = a;
    return 0;
}
static int look_new(void *arg) { return (*(struct array **)arg)->word[7] == 7 ? 0 : 1; }
static int give_back(void *arg) { return ps_free(*(struct array **)arg); }

static void test_ranges(const char *self)
{
    struct array *new;
    encoder_now = PS_ENCODE_RANGES;
    is(ps_encoder(box, PS_ENCODE_RANGES), 0, "RANGES again");
    ps_transaction(look_beside, NULL);
    uint64_t before[3] = {found[0], found[1], found[2]};
    is(ps_transaction(store_beside, NULL), 0, "a transaction that stores more than it declared");
    ps_transaction(look_beside, NULL);
    is((long)found[0], 77, "what was declared is kept");
    tap_ok(found[1] == before[1] && found[2] == before[2], "the rest is undone");
    int was = ps_strict(1);
    is(ps_transaction(store_beside, NULL), -ERANGE, "in strict mode it fails");
    ps_strict(was);
    is(ps_transaction(allocate, &new), 0, "a new object needs no declaration");
    is(ps_transaction(look_new, &new), 0, "and keeps what was stored to it");
    is(ps_transaction(give_back, &new), 0, "free");
    ps_container *again = ps_open("encoders", PS_WRITE, NULL);
    is(ps_encoder(box, PS_ENCODE_DIFF), -EBUSY, "no change while it is open twice");
    ps_close(again);
    is(child_run(self, "child", ""), 0, "nor while another process has it open");
    is(WHEN_FREE(ps_encoder(box, PS_ENCODE_DIFF)), 0, "then it changes");
    is(ps_encoder(box, PS_ENCODE_OPERATIONS + 1), -EINVAL, "there is no seventh encoder");
}

static int child(void)
{
    ps_container *c = ps_open("encoders", PS_WRITE, NULL);
    return c && ps_encoder(c, PS_ENCODE_DIFF) == -EBUSY ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "child")) return child();
    tap_plan(3 + 5 * 7 + 6 + 12);
    box = ps_open("encoders", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!box) {
        printf("Bail out! no container: %s\n", ps_strerror(errno));
        return 1;
    }
    is(listed("encoders"), PS_ENCODE_DIFF, "a new container logs differences");
    is(ps_transaction(build, NULL), 0, "objects");
    for (int e = 0; e < 4; e++) test_readers_and_death(e);
    test_readers_and_death(PS_ENCODE_OPERATIONS);
    test_bytes();
    test_ranges(argv[0]);
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    ps_close(box);
    ps_delete("encoders");
    return tap_end();
}
