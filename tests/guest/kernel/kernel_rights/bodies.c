/* bodies.c - a second thread at a marked place, and bodies of transactions. */
#include "rights.h"

_Atomic long credits_low;
bool hears_of_credits(struct kd_message *m)
{
    credits_low += m->kind == (uint32_t)KD_MSG_CREDIT_LOW;
    return false;
}

struct other other;

void stop_at(int place)
{
    other.at = place;
    while (other.go < place) other.turns++;
}

static void *other_main(void *arg)
{
    (void)arg;
    other.result = run(other.body, NULL, other.mode, 0);
    stop_at(9); /* still in its view */
    return NULL;
}

void other_start(int (*body)(void *), unsigned mode)
{
    other.body = body;
    other.mode = mode;
    other.at = other.go = 0;
    other.result = 99;
    pthread_create(&other.thread, NULL, other_main, NULL);
}

void other_reaches(int place)
{
    while (other.at < place)
        kd_call3(24, 0, 0, 0); /* sched_yield */
}

void other_runs(void)
{
    for (int seen = 0; seen < 100; seen++)
        for (unsigned long turns = other.turns; turns == other.turns;) {
        }
}

int other_ends(void)
{
    other.go = 9;
    pthread_join(other.thread, NULL);
    return other.result;
}

/* ---- bodies ---- */

int read_page(void *page) { return (int)*word_of((unsigned)(uintptr_t)page, 0); }
int write_page(void *page) { *word_of((unsigned)(uintptr_t)page, 0) += 1; return 0; }
int try_write(unsigned page, unsigned ms)
{
    return run(write_page, (void *)(uintptr_t)page, KD_SERIALISABLE, ms);
}
int value(unsigned page)
{
    return run(read_page, (void *)(uintptr_t)page, KD_SERIALISABLE, LONG_MS);
}

int reads_1(void *arg)
{
    (void)arg;
    int first = read_page((void *)1);
    stop_at(1);
    return read_page((void *)1) - first;
}
int reads_1_by_hint(void *arg)
{
    read_page((void *)1);
    stop_at(1);
    kd_call3(KD_TXN_HINT, (long)word_of(1, 0), 1, KD_HINT_PREFETCH); /* no load of its own */
    stop_at(2);
    return (int)(uintptr_t)arg;
}
_Atomic int delay;
static void wait_a_little(void)
{
    for (volatile int i = 0; i < delay; i++) {
    }
}
int reads_24(void *arg) { (void)arg; return read_page((void *)24) & 0; }
int reads_25_and_ends(void *arg)
{
    (void)arg;
    read_page((void *)25);
    stop_at(1);
    wait_a_little();
    return 0;
}
int reads_32_then_33(void *arg)
{
    (void)arg;
    read_page((void *)32);
    stop_at(1);
    wait_a_little();
    return read_page((void *)33) & 0;
}
int reads_30(void *arg) { (void)arg; return read_page((void *)30) & 0; }
int upgrades_30(void *arg)
{
    (void)arg;
    read_page((void *)30);
    stop_at(1);
    return write_page((void *)30);
}
int upgrades_30_second(void *arg)
{
    (void)arg;
    read_page((void *)30);
    other.go = 1;
    usleep(20000);
    return write_page((void *)30);
}
int writes_2(void *arg)
{
    (void)arg;
    write_page((void *)2);
    stop_at(1);
    return 0;
}
int writes_26(void *arg)
{
    (void)arg;
    write_page((void *)26);
    stop_at(1);
    return 0;
}
int writes_22(void *arg)
{
    (void)arg;
    write_page((void *)22);
    stop_at(1);
    return 0;
}
int writes_23_then_22(void *arg) /* 23 first: the fault of 22 is a fast one */
{
    write_page((void *)23);
    word_of(22, 0)[1] = 1;
    return write_page(arg);
}
int reads_3_writes_4(void *arg)
{
    (void)arg;
    read_page((void *)3);
    write_page((void *)4);
    return 0;
}
int reads_5_then_6(void *arg)
{
    (void)arg;
    int first = read_page((void *)5);
    stop_at(1);
    int sixth = read_page((void *)6);
    stop_at(2);
    return first * 100 + sixth;
}
int crosses(void *arg)
{
    write_page((void *)7);
    if (!arg)
        stop_at(1);
    write_page((void *)8);
    return 0;
}
int crosses_back(void *arg)
{
    (void)arg;
    write_page((void *)8);
    other.go = 1;
    usleep(20000);
    write_page((void *)7);
    return 0;
}

int scan(void *from)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < SCAN_PAGES; i++)
        sum += *word_of((unsigned)(uintptr_t)from + i, 0);
    return sum != 0;
}
