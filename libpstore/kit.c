/*
 * kit.c - latches and semaphores in an area, and areas of one process.
 *
 * Invariants
 *   KT1  A latch whose word has an owner is held by that thread, or its process has ended.
 *   KT2  Who sleeps for a latch has seen LATCH_WAITERS in the word that he sleeps on; who takes it
 *        after a sleep sets LATCH_WAITERS, since others may sleep still.
 *   KT3  A semaphore's `waiters` is at least the number of threads that sleep for it.
 *   KT4  Images below `used` are whole, and of words as they were when the latch was taken; they go
 *        before the latch does. So a death at any instruction leaves what puts all back.
 *
 * So whoever gives something up sees in the same memory that he has to wake. The sleeper's word is
 * compared once more by the one who would put him to sleep: nothing falls between.
 */
#include "kit_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOAD(word) __atomic_load_n((word), __ATOMIC_SEQ_CST)
#define SWAP(word, seen, wanted) \
    __atomic_compare_exchange_n((word), (seen), (wanted), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define SEMAPHORE_MAX 0x7fffffffull

enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_PRIVATE = 128 };       /* Linux's */

/* ---- sleeping ---- */

static int futex(const uint64_t *word, int what, uint32_t value, int timeout_ms)
{
    struct timespec time = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000l};
    long r = syscall(SYS_futex, word, what | FUTEX_PRIVATE, value,
                     what == FUTEX_WAIT && timeout_ms >= 0 ? &time : NULL, NULL, 0);
    return r < 0 && errno == ETIMEDOUT ? -ETIMEDOUT : 0;
}

int area_wait(ps_area *a, uint64_t *word, uint64_t expected, int latch, int timeout_ms)
{
    if (timeout_ms == 0)
        return -ETIMEDOUT;
    if (a->port >= 0)
        return shared_wait(a, word, expected, latch, timeout_ms);
    return futex(word, FUTEX_WAIT, (uint32_t)expected, timeout_ms);
}

void area_wake(ps_area *a, uint64_t *word, unsigned count)
{
    if (a->port >= 0)
        shared_wake(a, word, count);
    else
        futex(word, FUTEX_WAKE, count, -1);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* sleep_until sleeps as area_wait does, for what is left of the time since the first sleep: *until
 * is 0 before that. Who is woken and finds nothing has no new time. */
static int sleep_until(ps_area *a, uint64_t *word, uint64_t expected, int latch, int timeout_ms,
                       int64_t *until)
{
    int64_t left = timeout_ms, now = timeout_ms > 0 ? now_ms() : 0;
    if (timeout_ms > 0 && !*until)
        *until = now + timeout_ms;
    else if (timeout_ms > 0)
        left = *until > now ? *until - now : 0;
    return area_wait(a, word, expected, latch, (int)left);
}

/* ---- latches ---- */

/* thread_bits is the calling thread's number, from 1, as in a latch's word; 0: it has none yet. */
static __thread uint32_t thread_bits;

/* myself returns the calling thread as a latch's owner. */
static uint64_t myself(const ps_area *a)
{
    static uint32_t threads;
    if (!thread_bits)
        thread_bits = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED) << 2;
    return a->owner | thread_bits;
}

static __attribute__((noinline)) int latch_take(ps_area *a, struct ps_latch *l, int timeout_ms)
{
    const uint64_t me = myself(a);
    uint64_t seen = LOAD(&l->word), slept = 0;
    int64_t until = 0;
    for (;;) {
        if (!(seen & LATCH_OWNER)) {
            if (SWAP(&l->word, &seen, seen | me | slept)) /* KT2 */
                return error_told_if(ERROR_LATCH, seen & LATCH_DIED ? -EOWNERDEAD : 0);
            continue;
        }
        if ((seen & LATCH_OWNER) == me)
            return error_told(ERROR_LATCH, -EDEADLK);
        if (!(seen & LATCH_WAITERS) && !SWAP(&l->word, &seen, seen | LATCH_WAITERS))
            continue;
        int error = sleep_until(a, &l->word, seen | LATCH_WAITERS, 1, timeout_ms, &until);
        if (error)
            return error_told(ERROR_LATCH, error);
        slept = LATCH_WAITERS;
        seen = LOAD(&l->word);
    }
}

/* ps_latch_take and _give are one compare-exchange where nobody is in the way: 0 for the owner. */
int ps_latch_take(ps_area *a, struct ps_latch *l, int timeout_ms)
{
    uint64_t nobody = 0;
    if (thread_bits && SWAP(&l->word, &nobody, a->owner | thread_bits))
        return (int)nobody;               /* 0, and at hand */
    return latch_take(a, l, timeout_ms);
}

static __attribute__((noinline)) int latch_give(ps_area *a, struct ps_latch *l)
{
    if ((LOAD(&l->word) & LATCH_OWNER) != myself(a))
        return error_told(ERROR_LATCH, -EPERM);
    uint64_t was = __atomic_fetch_and(&l->word, LATCH_DIED, __ATOMIC_SEQ_CST);
    if (was & LATCH_WAITERS)
        area_wake(a, &l->word, 1);
    return 0;
}

int ps_latch_give(ps_area *a, struct ps_latch *l)
{
    uint64_t me = a->owner | thread_bits;
    return SWAP(&l->word, &me, 0) ? 0 : latch_give(a, l);
}

int ps_latch_repaired(ps_area *a, struct ps_latch *l)
{
    if ((LOAD(&l->word) & LATCH_OWNER) != myself(a))
        return error_told(ERROR_LATCH, -EPERM);
    __atomic_fetch_and(&l->word, ~LATCH_DIED, __ATOMIC_SEQ_CST);
    return 0;
}

/* ---- before-images ---- */

int ps_image(ps_area *a, struct ps_images *i, const void *p, size_t bytes)
{
    uint64_t at = (uintptr_t)p & ~7ull, end = (uintptr_t)p + bytes, base = (uintptr_t)a->memory;
    if (at < base || end > base + a->bytes || end < at)
        return error_told(ERROR_LATCH, -EINVAL);
    if (i->used > PS_IMAGES_MAX || (end - at + 7) / 8 > PS_IMAGES_MAX - i->used)
        return error_told(ERROR_LATCH, -ENOSPC);
    for (; at < end; at += 8) {
        i->image[i->used].at = at - base;
        i->image[i->used].word = *(uint64_t *)(void *)(a->memory + (at - base));
        __atomic_store_n(&i->used, i->used + 1, __ATOMIC_RELEASE);  /* KT4 */
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return 0;
}

void ps_images_drop(struct ps_images *i)
{
    __atomic_store_n(&i->used, 0, __ATOMIC_RELEASE);
}

/* ps_images_restore puts the first image of a word back last, as that is the oldest. */
void ps_images_restore(ps_area *a, struct ps_images *i)
{
    uint64_t used = i->used < PS_IMAGES_MAX ? i->used : PS_IMAGES_MAX;
    for (; used > 0; used--)
        if (i->image[used - 1].at + 8 <= a->bytes && i->image[used - 1].at % 8 == 0)
            *(volatile uint64_t *)(void *)(a->memory + i->image[used - 1].at) =
                i->image[used - 1].word;
    ps_images_drop(i);
}

/* ---- semaphores ---- */

void ps_semaphore_begin(struct ps_semaphore *s, unsigned value)
{
    *s = (struct ps_semaphore){.value = value & SEMAPHORE_MAX};
}

int ps_semaphore_take(ps_area *a, struct ps_semaphore *s, int timeout_ms)
{
    int64_t until = 0;
    for (;;) {
        uint64_t seen = LOAD(&s->value);
        while (seen > 0)
            if (SWAP(&s->value, &seen, seen - 1))
                return 0;
        __atomic_fetch_add(&s->waiters, 1, __ATOMIC_SEQ_CST); /* KT3 */
        int error = sleep_until(a, &s->value, 0, 0, timeout_ms, &until);
        __atomic_fetch_sub(&s->waiters, 1, __ATOMIC_SEQ_CST);
        if (error)
            return error_told(ERROR_LATCH, error);
    }
}

int ps_semaphore_give(ps_area *a, struct ps_semaphore *s, unsigned n)
{
    uint64_t seen = LOAD(&s->value);
    do {
        if (seen + n > SEMAPHORE_MAX)
            return error_told(ERROR_LATCH, -EOVERFLOW);
    } while (!SWAP(&s->value, &seen, seen + n));
    if (n > 0 && LOAD(&s->waiters))
        area_wake(a, &s->value, n);
    return 0;
}

/* ---- areas of one process, and what is the same for both kinds ---- */

ps_area *ps_area_private(size_t bytes, const struct ps_task *task)
{
    ps_area *a = bytes == 0 || bytes > PS_AREA_MAX ? NULL : calloc(1, sizeof(*a));
    if (!a) {
        errno = bytes == 0 || bytes > PS_AREA_MAX ? EINVAL : ENOMEM;
        return error_told_by(ERROR_AREA, NULL);
    }
    *a = (ps_area){.bytes = bytes, .owner = LATCH_OF_CLIENT(1), .port = -1,
                   .serving = PTHREAD_MUTEX_INITIALIZER};
    if (task)
        a->task = *task;
    a->memory = calloc(1, bytes);
    if (a->memory)
        return a;
    free(a);
    return error_told_by(ERROR_AREA, NULL);
}

void *ps_area_memory(const ps_area *a) { return a->memory; }
size_t ps_area_bytes(const ps_area *a) { return a->bytes; }

int ps_area_close(ps_area *a)
{
    if (a->port >= 0)
        return error_told(ERROR_AREA, shared_close(a));
    free(a->memory);
    free(a);
    return 0;
}

/* struct asker: one who asks in a private area: his own thread serves, and he sleeps if the answer
 * comes later. It is in the area's list until then, which a->serving guards. */
struct asker {
    struct asker *next;
    uint64_t token;
    void *message;
    size_t room;
    int answered, result;
    pthread_cond_t told;
};

static int private_answer(ps_area *a, uint64_t token, int result, const void *data, size_t bytes)
{
    for (struct asker **at = &a->askers, *w; (w = *at); at = &w->next)
        if (w->token == token) {
            *at = w->next;
            w->result = bytes > w->room ? -EMSGSIZE : result;
            if (bytes <= w->room && bytes > 0)
                memcpy(w->message, data, bytes);
            w->answered = 1;
            pthread_cond_signal(&w->told);
            return 0;
        }
    return -ESRCH;
}

static struct timespec in_future(int timeout_ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += timeout_ms % 1000 * 1000000l;
    t.tv_sec += timeout_ms / 1000 + t.tv_nsec / 1000000000l;
    t.tv_nsec %= 1000000000l;
    return t;
}

static int asker_waits(ps_area *a, struct asker *w, int timeout_ms)
{
    const struct timespec until = in_future(timeout_ms < 0 ? 0 : timeout_ms);
    int error = 0;
    w->next = a->askers;
    a->askers = w;
    while (!w->answered && error == 0)
        error = timeout_ms < 0 ? pthread_cond_wait(&w->told, &a->serving)
                               : pthread_cond_timedwait(&w->told, &a->serving, &until);
    if (w->answered)
        return w->result;
    for (struct asker **at = &a->askers; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    return -ETIMEDOUT;
}

static int private_ask(ps_area *a, void *message, size_t bytes, int timeout_ms)
{
    if (LOAD(&a->in_serve) && pthread_equal(a->serves, pthread_self()))
        return -EDEADLK;
    pthread_mutex_lock(&a->serving);
    struct asker w = {.token = ++a->tokens, .message = message, .room = bytes,
                      .told = PTHREAD_COND_INITIALIZER};
    struct ps_request r = {LATCH_CLIENT(a->owner), w.token, message, bytes};
    a->serves = pthread_self();
    __atomic_store_n(&a->in_serve, 1, __ATOMIC_SEQ_CST);
    int result = a->task.serve(a->task.arg, &r);
    __atomic_store_n(&a->in_serve, 0, __ATOMIC_SEQ_CST);
    if (result == PS_LATER)
        result = asker_waits(a, &w, timeout_ms);
    pthread_mutex_unlock(&a->serving);
    return result;
}

static int ask(ps_area *a, void *message, size_t bytes, int timeout_ms)
{
    if (bytes > PS_MESSAGE_MAX)
        return -EMSGSIZE;
    if (a->port >= 0)
        return shared_ask(a, message, bytes, timeout_ms);
    return a->task.serve ? private_ask(a, message, bytes, timeout_ms) : -ENOSYS;
}

int ps_ask(ps_area *a, void *message, size_t bytes, int timeout_ms)
{
    return error_told(ERROR_ASK, ask(a, message, bytes, timeout_ms));
}

int ps_answer(ps_area *a, uint64_t token, int result, const void *data, size_t bytes)
{
    if (bytes > PS_MESSAGE_MAX)
        return error_told(ERROR_ASK, -EMSGSIZE);
    result = a->port >= 0 ? shared_answer(token, result, data, bytes)
                          : private_answer(a, token, result, data, bytes);
    return error_told(ERROR_ASK, result);
}
