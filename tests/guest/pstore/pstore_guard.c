/*
 * pstore_guard.c - containers with a guard: stray stores in the middle of a transaction's own (FT8,
 * FT9, GD1, GD2).
 *
 * Aim     a store that was not announced is found at its own instruction: in page mode one to a
 *         page without ps_touch; in item mode one to a page without ps_write and, where the
 *         processor has protection keys, one to any page while no access is open: before the first,
 *         behind ps_release, ps_add, ps_alloc, the end, an abort. What is announced is stored, the
 *         library's own stores are. Keys are of a thread: others', children's and handlers' are
 *         closed, also when two threads take turns on one CPU. System calls honour them. Who
 *         sets PKRU himself harms nobody.
 * Method  children of fork with a handler of SIGSEGV, which looks at the instruction and the
 * address.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "pstore_test.h"

enum { PAGE_WORDS = 512, PAGES = 6, TURNS = 3000, FOUND = 42, ELSEWHERE = 43 };

struct array { uint64_t word[PAGES * PAGE_WORDS]; };
struct root { struct array *a; int64_t sum; };
static ps_container *box;
static struct root *root;
static int has_keys;

/* ---- the stray store, and who finds it ---- */

static volatile uintptr_t wild_at;
extern const char wild_store[];
static __attribute__((noinline)) void wild(volatile uint64_t *p)
{
    wild_at = (uintptr_t)ps_home((const void *)(uintptr_t)p);
    __asm__ volatile(".globl wild_store\nwild_store:\tmovq $666, (%0)" ::"r"(p) : "memory");
}

static void found(int number, siginfo_t *info, void *context)
{
    const ucontext_t *u = context;
    (void)number;
    _exit((uintptr_t)u->uc_mcontext.gregs[REG_RIP] == (uintptr_t)wild_store &&
                  (uintptr_t)info->si_addr == wild_at ? FOUND : ELSEWHERE);
}

static volatile uint64_t *word(unsigned page, unsigned i)
{
    return &root->a->word[page * PAGE_WORDS + i];
}
static volatile uint64_t *for_writing(unsigned page, unsigned i)
{
    return ps_write(&root->a->word[page * PAGE_WORDS + i]);
}

/* Runs it in a transaction of a child: FOUND; ELSEWHERE; 0: it committed; the errno. */
static int child(int (*body)(void *), const struct ps_options *how)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        struct sigaction action = {.sa_sigaction = found, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, NULL);
        _exit(-ps_transaction_opt(body, NULL, how));
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static void finds(int (*body)(void *), const char *what)
{
    is(child(body, NULL), FOUND, what);
}
static void commits(int (*body)(void *), const char *what)
{
    is(child(body, NULL), 0, what);
}
/* Found at its place by a key; without one, at its page if that was not written, else at the
 * commit. */
static void finds_by_key(int (*body)(void *), const char *what)
{
    is(child(body, NULL), has_keys ? FOUND : 0, what);
}

static uint32_t keys(void)
{
    uint32_t k, high;
    __asm__ volatile("rdpkru" : "=a"(k), "=d"(high) : "c"(0));
    return k;
}
static int open_now(void) { return !has_keys || !(keys() & 8); }
static int closed_now(void) { return !has_keys || keys() & 8; }

static int keys_here(void)
{
    uint32_t a = 7, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return c >> 4 & 1;
}

/* ---- what is there ---- */

static int build(void *unused)
{
    (void)unused;
    root = ps_root(box);
    if (!ps_write(root)) return -errno;
    root->a = ps_new(box, struct array, NULL);
    return root->a ? 0 : -errno;
}

static int look(void *sum)
{
    uint64_t all = 0;
    for (unsigned p = 0; p < PAGES; p++)
        for (unsigned i = 0; i < PAGE_WORDS; i++) all += *word(p, i);
    *(uint64_t *)sum = all;
    return 0;
}
static long total(void)
{
    uint64_t sum = 0;
    int e = ps_transaction(look, &sum);
    return e ? e : (long)sum;
}

/* ---- both modes ---- */

static int at_once(void *unused)
{
    wild(word(0, 1));
    return (void)unused, 0;
}
static int beside(void *unused)             /* another page than the announced one */
{
    if (!for_writing(0, 1)) return -errno;
    *word(0, 1) = 1;
    wild(word(1, 1));
    return (void)unused, 0;
}
static int by_window(void *unused)
{
    volatile uint64_t *p = (volatile uint64_t *)(uintptr_t)unused;
    p = ps_window((const void *)(uintptr_t)word(2, 0), 8, PS_WRITE);
    if (!p) return -errno;
    wild(p);
    return 0;
}
static int announced(void *unused)
{
    for (unsigned p = 0; p < PAGES; p++) {
        volatile uint64_t *w = for_writing(p, 7);
        if (!w) return -errno;
        *w = 0;
    }
    return (void)unused, ps_add(&root->sum, 1);
}
static int announced_by_touch(void *unused)
{
    if (ps_touch((const void *)(uintptr_t)word(3, 1), 16)) return -EIO;
    *word(3, 1) = *word(3, 2) = 0;
    return (void)unused, 0;
}
static int runs;
static int again(void *unused)              /* what one run announced is not the next's */
{
    (void)unused;
    if (runs++) wild(word(0, 1));
    if (!for_writing(0, 1)) return -errno;
    *word(0, 1) = 0;
    ps_abort(EDEADLK);
}
static int again_in_child(void *unused)
{
    (void)ps_transaction(again, NULL);
    (void)ps_transaction(again, NULL);
    return (void)unused, 0;
}
static int opens_and_aborts(void *unused)
{
    kd_call3(KD_TXN_HINT, 0, 0, KD_HINT_OPEN);  /* as the library does */
    return (void)unused, ECANCELED;
}
static int opened_before(void *unused)
{
    (void)ps_transaction(opens_and_aborts, NULL);
    (void)ps_transaction(at_once, NULL);
    return (void)unused, 0;
}
static int child_of(int (*body)(void *))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        struct sigaction action = {.sa_sigaction = found, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, NULL);
        _exit(body(NULL));
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static int library(void *unused)            /* its stores are meant */
{
    char *name = ps_named(box, "text", 32), *s = ps_strdup(box, "some text", NULL);
    ps_arena *arena = ps_arena_make(box);
    uint64_t *of = arena ? ps_alloc_in(arena, 64, NULL, NULL) : NULL;
    struct array *large = ps_new(box, struct array, NULL);
    if (!name || !s || !of || !large) return -errno;
    if (!(s = ps_realloc(s, 3000)) || strcmp(s, "some text")) return -EIO;
    if (!(large = ps_realloc(large, 2 * sizeof *large))) return -errno;
    int e = ps_free(s);
    e = e ? e : ps_free(large);
    e = e ? e : ps_arena_free(arena);
    return (void)unused, e ? e : ps_name_remove(box, "text");
}
static int behind_library(void *unused)
{
    int e = library(NULL);
    wild(word(1, 1));
    return (void)unused, e;
}
static int read_into(unsigned page, int announce)
{
    int ends[2], e = pipe(ends);
    uint64_t value = 0;
    write(ends[1], &value, sizeof value);
    if (announce && !for_writing(page, 9)) return -errno;
    if (e == 0 && read(ends[0], (void *)(uintptr_t)word(page, 9), sizeof value) < 0) e = errno;
    close(ends[0]), close(ends[1]);
    return e;
}
static int call_stray(void *unused) { return (void)unused, read_into(1, 0) == EFAULT ? 0 : -EIO; }
static int call_meant(void *unused) { return (void)unused, -read_into(1, 1); }

static void test_both(void)
{
    finds(at_once, "a store that was never announced");
    finds(beside, "a store beside an announced page");
    finds(by_window, "a store by a window");
    commits(announced, "announced stores");
    commits(announced_by_touch, "also by ps_touch");
    is(child_of(again_in_child), FOUND, "an abort takes the announcement back");
    is(child_of(opened_before), FOUND, "and what the library had opened");
    commits(library, "the library's own stores are meant");
    finds(behind_library, "a store behind them is not");
    commits(call_stray, "a system call's store that was not announced is EFAULT");
    commits(call_meant, "one that was is none");
    is(child(at_once, &(struct ps_options){.isolation = PS_SNAPSHOT}), EROFS,
       "in a snapshot a store is EROFS, as ever");
    is(total(), 0, "and none of all that is kept");
}

/* ---- item mode ---- */

static int after_release(void *unused)
{
    volatile uint64_t *p = for_writing(0, 1);
    if (!p) return -errno;
    *p = 0;
    if (ps_release((const void *)(uintptr_t)p) || !closed_now()) return -EIO;
    wild(word(0, 3));
    return (void)unused, 0;
}
static int two_open(void *unused)
{
    volatile uint64_t *p = for_writing(0, 1), *q = for_writing(0, 2);
    if (!p || !q || ps_release((const void *)(uintptr_t)p) || !open_now()) return -EIO;
    *q = 0;
    if (ps_release((const void *)(uintptr_t)q) || !closed_now()) return -EIO;
    if (!for_writing(0, 1) || !open_now()) return -EIO; /* an item that it has already */
    *p = 0;
    return (void)unused, 0;
}
static int window_closed(void *unused)
{
    uint64_t *p = ps_window((const void *)(uintptr_t)word(2, 0), 8, PS_WRITE);
    if (!p || !(p = ps_write(p))) return -errno;
    *p = 0;
    if (ps_release(p)) return -EIO;
    wild(p);
    return (void)unused, 0;
}
static int read_inside(void *unused)       /* what is only read ends no bracket */
{
    volatile uint64_t *p = ps_lock(box, 0) == 0 ? for_writing(0, 1) : NULL;
    const uint64_t *q = ps_read(&root->a->word[2]);
    if (!p || !q || ps_release(q) || !open_now()) return -EIO;
    *p = 0;
    if (ps_release((const void *)(uintptr_t)p) || !closed_now()) return -EIO;
    return (void)unused, 0;
}
static int many_open(void *unused)         /* released in another order, and more than are noted */
{
    for (unsigned i = 0; i < 20; i++)
        if (!for_writing(0, i)) return -errno;
    for (unsigned i = 0; i < 20; i++)
        if (!open_now() || ps_release(&root->a->word[i])) return -EIO;
    if (!closed_now()) return -EIO;
    for (unsigned i = 0; i < 50; i++)
        if (!for_writing(0, i)) return -errno;
    for (unsigned i = 0; i < 50; i++) {
        *word(0, i) = 0;
        if (ps_release(&root->a->word[i])) return -EIO;
    }
    return (void)unused, 0;
}
static int window_add(void *unused)
{
    int64_t *sum = ps_window(&root->sum, sizeof root->sum, PS_WRITE);
    int e = sum ? ps_add(sum, 0) : -errno;
    return (void)unused, e ? e : closed_now() ? 0 : -EIO;
}
static int after_add(void *unused)
{
    int e = ps_add(&root->sum, 0);
    if (e) return e;
    wild((uint64_t *)&root->sum);
    return (void)unused, 0;
}
static int after_alloc(void *unused)
{
    uint64_t *p = ps_alloc(box, 64, NULL);
    if (!p) return -errno;
    wild(p);
    return (void)unused, 0;
}
static int bracket_stays(void *unused)
{
    volatile uint64_t *p = for_writing(0, 1);
    if (!p) return -errno;
    *p = 0;
    return (void)unused, 0;
}
static int end_closes(void *unused)
{
    (void)unused;
    if (ps_transaction(bracket_stays, NULL) || !closed_now()) return ELSEWHERE;
    runs = 0;
    if (ps_transaction(again, NULL) != -EDEADLK) return ELSEWHERE - 1;
    return closed_now() ? 0 : ELSEWHERE + 1;
}
static int suspended(void *unused)
{
    if (!for_writing(0, 1)) return -errno;
    ps_tx *mine = ps_suspend();
    int between = closed_now();
    if (ps_resume(mine) || !between || !open_now()) return -EIO;
    *word(0, 1) = 0;
    return (void)unused, 0;
}
static int strays_undone(void *unused)      /* a program that opens the key itself */
{
    volatile uint64_t *p = for_writing(0, 1);
    if (!p || ps_release((const void *)(uintptr_t)p)) return -EIO;
    if (has_keys) __asm__ volatile("wrpkru" ::"a"(0), "c"(0), "d"(0));
    *word(0, 3) = 5;
    return (void)unused, 0;
}

static int strays_refused(void *unused)
{
    ps_strict(1);
    return (void)unused, -ps_transaction(strays_undone, NULL);
}

/* ---- whose the key is ---- */

static _Atomic int handler_was_closed;
static void handler(int number)
{
    (void)number;
    handler_was_closed = closed_now();
}
static int with_signal(void *unused)
{
    volatile uint64_t *p = for_writing(0, 1);
    if (!p) return -errno;
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    if (!handler_was_closed || !open_now()) return -EIO;
    *p = 0;
    return (void)unused, 0;
}
static sigjmp_buf left;
static void leaver(int number)
{
    (void)number;
    siglongjmp(left, 1);
}
static int jumps(void *unused)              /* out of a handler: the next access opens */
{
    if (!for_writing(0, 1)) return -errno;
    signal(SIGUSR1, leaver);
    if (sigsetjmp(left, 1) == 0) raise(SIGUSR1);
    if (!closed_now() || !for_writing(0, 2) || !open_now()) return -EIO;
    *word(0, 1) = *word(0, 2) = 0;
    return (void)unused, 0;
}
static void handler_stores(int number)
{
    (void)number;
    wild(word(0, 3));
}
static int stray_in_handler(void *unused)
{
    if (!for_writing(0, 1)) return -errno;
    signal(SIGUSR1, handler_stores);
    raise(SIGUSR1);
    return (void)unused, 0;
}
static int with_fork(void *unused)
{
    int status;
    if (!for_writing(0, 1)) return -errno;
    pid_t pid = fork();
    if (pid == 0) _exit(!closed_now());
    if (waitpid(pid, &status, 0) != pid || status || !open_now()) return -EIO;
    *word(0, 1) = 0;
    return (void)unused, 0;
}

/* Threads that take turns: each finds its key as it left it. */
static _Atomic int turns_wrong;
static int take_turns(void *arg)
{
    int opens = *(int *)arg;
    volatile uint64_t *p = for_writing(opens ? 0 : 1, 5);
    if (!p || (!opens && ps_release((const void *)(uintptr_t)p))) return -EIO;
    for (int i = 0; i < TURNS; i++) {
        turns_wrong += opens ? !open_now() : !closed_now();
        if (opens) *p = 0;
        sched_yield();
    }
    return 0;
}
static void *thread_turns(void *arg)
{
    turns_wrong += ps_transaction(take_turns, arg) != 0;
    return NULL;
}
static void test_turns(void)
{
    enum { THREADS = 4 };                   /* more than there are CPUs */
    pthread_t t[THREADS];
    int opens[THREADS] = {1, 0, 0, 0};
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, thread_turns, &opens[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    is(turns_wrong, 0, "threads that take turns keep their keys apart");
}

/* ---- hostile: no memory of its own can be read or written ---- */

/* write(1, text, 1) while all keys are shut; its result. */
static long call_shut(const char *text)
{
    long result = 1;
    __asm__ volatile("wrpkru\n\t"
                     "movl $1, %%edi\n\tmovl $1, %%edx\n\tmovl $1, %%eax\n\t"
                     "syscall\n\t"
                     "movq %%rax, %%rsi\n\t"
                     "xorl %%eax, %%eax\n\txorl %%ecx, %%ecx\n\txorl %%edx, %%edx\n\t"
                     "wrpkru"
                     : "+S"(text)
                     : "a"(~0u), "c"(0), "d"(0)
                     : "rdi", "r11", "memory");
    result = (long)text;
    return result;
}
static int shut_out(void *unused)
{
    return (void)unused, call_shut("x") == -EFAULT ? 0 : 1;
}
static int shut_dies(void *unused)
{
    volatile int local = 0;
    signal(SIGSEGV, SIG_DFL);
    __asm__ volatile("wrpkru" ::"a"(~0u), "c"(0), "d"(0));
    local++;
    return (void)unused, 0;
}
static int shut_stays(void *unused)         /* computes for ever, shut: others go on */
{
    __asm__ volatile("wrpkru\n1:\tpause\n\tjmp 1b" ::"a"(~0u), "c"(0), "d"(0));
    return (void)unused, 0;
}
static void test_hostile(void)
{
    is(has_keys ? child_of(shut_out) : 0, 0, "a call by memory that is shut is EFAULT");
    is(has_keys ? child_of(shut_dies) : -1, -1, "a store there ends the program");
    pid_t pid = has_keys ? fork() : -1;
    if (pid == 0) _exit(shut_stays(NULL));
    int wrong = 0, status = 0;
    for (int i = 0; i < 50; i++) {
        wrong += total() != 0;
        sched_yield();
    }
    is(wrong, 0, "others go on beside one that has shut all");
    if (pid > 0) kill(pid, SIGKILL), waitpid(pid, &status, 0);
}

static void test_items(void)
{
    finds_by_key(after_release, "behind ps_release");
    finds_by_key(window_closed, "by a window");
    commits(two_open, "brackets nest");
    commits(read_inside, "what is only read ends none of them");
    commits(many_open, "many at once");
    finds_by_key(after_add, "behind ps_add");
    commits(window_add, "and behind ps_add by a window");
    finds_by_key(after_alloc, "to a new object without an access");
    is(child_of(end_closes), 0, "the end of a transaction, and an abort, close");
    commits(suspended, "a transaction that is left for a while takes its key along");
    commits(strays_undone, "who opens the key himself");
    is(total(), 0, "stores what is undone at the commit");
    is(child_of(strays_refused), ERANGE, "or refused, where strict");
    commits(with_signal, "a handler begins with the key closed, and gives it back open");
    finds_by_key(stray_in_handler, "in a handler");
    commits(jumps, "who jumps out of a handler opens it by his next access");
    commits(with_fork, "a child begins with the key closed");
    test_turns();
    test_hostile();
}

int main(void)
{
    tap_plan(57);
    has_keys = keys_here();
    printf("# protection keys: %d\n", has_keys);
    box = ps_open("guarded", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(box ? ps_transaction(build, NULL) : -errno, 0, "some objects");
    is(ps_protection(box, PS_PROTECT_GUARD), 0, "a guard, of pages");
    test_both();
    is(ps_encoder(box, PS_ENCODE_RANGES), 0, "with ranges");
    commits(announced, "announced stores");
    finds(beside, "a store beside an announced page");
    is(ps_encoder(box, PS_ENCODE_DIFF), 0, "with differences");
    is(ps_locking(box, PS_LOCK_ITEMS), 0, "items");
    test_both();
    test_items();
    is(ps_protection(box, PS_PROTECT_NONE), 0, "no guard");
    is(child(at_once, NULL), 0, "a stray store is found by nobody, ...");
    is(total(), 0, "... and undone");
    return tap_end();
}
