/*
 * touch.c - first touches open: a load or store where nothing is open opens what lies there.
 *
 * The kernel tells of such a touch as of any that is wrong: by SIGSEGV. The handler looks whether
 * the process's roots lead to what lies at the address (container_touch); if so the touch is made
 * again, else the signal goes to whom it would have gone: a handler of the program's, or the
 * kernel, which ends the program and says why.
 *
 * A touch is made while no lock of the library's is held (TX1), so the handler may take them. In a
 * transaction it leaves the view for the work, like ps_open. An abort takes the thread out of the
 * handler as out of any code, and so SIGSEGV is never blocked in it (SA_NODEFER); while it works
 * all signals are, for their handlers may jump.
 */
#include "pstore_private.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#define STACK_BYTES 32768u                /* of the thread that switches it on, for the handler */

static pthread_mutex_t switch_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int on;
static int installed;                     /* switch_lock */
static struct sigaction before;           /* does not change while it is installed */

/* opened_meanwhile: another thread opened what lies there behind this touch, perhaps, so that is
 * made again. If it fails once more, and nothing was closed between, the touch is wrong. */
static int opened_meanwhile(uint64_t address)
{
    static _Thread_local struct { uint64_t address; unsigned closes; } last;
    unsigned closes = container_closes;
    int again = last.address != address || last.closes != closes;
    last.address = address;
    last.closes = closes;
    return again;
}

static int touch(uint64_t address)
{
    struct kd_space_info info;
    sigset_t all, old;
    if (ps_kernel(KD_CONTAINER_INFO, (long)address, (long)&info, 0) == 0)
        return opened_meanwhile(address);
    sigfillset(&all);
    struct ps_tx *tx = tx_work_begin();   /* first: an abort would leave them blocked */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int result = container_touch(address);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    tx_work_end(tx);
    if (result == -EOWNERDEAD && tx && !tx->explicit_)
        ps_abort(EOWNERDEAD);             /* the next one finds the store again */
    return result == 0;
}

/* pass_on acts as if the signal had come to the handler before. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    struct sigaction to = before;
    sigset_t blocked = to.sa_mask;
    if (to.sa_handler == SIG_DFL || to.sa_handler == SIG_IGN) {
        to.sa_handler = SIG_DFL;
        sigaction(number, &to, NULL);
        if (info->si_code <= 0)           /* sent by somebody; else the touch is made again */
            raise(number);
        return;
    }
    if (!(to.sa_flags & SA_NODEFER))
        sigaddset(&blocked, number);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    if (to.sa_flags & SA_SIGINFO)
        to.sa_sigaction(number, info, context);
    else
        to.sa_handler(number);
}

static void fault(int number, siginfo_t *info, void *context)
{
    int error = errno;
    uint64_t address = (uintptr_t)info->si_addr;
    if (!on || info->si_code <= 0 || address < KD_STORE_BASE || address >= KD_STORE_END ||
        !touch(address))
        pass_on(number, info, context);
    errno = error;
}

static int stack_give(void)
{
    stack_t old, own = {.ss_size = STACK_BYTES};
    if (sigaltstack(NULL, &old) != 0 || !(old.ss_flags & SS_DISABLE))
        return 0;
    own.ss_sp = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return own.ss_sp == MAP_FAILED ? -ENOMEM : sigaltstack(&own, NULL) != 0 ? -errno : 0;
}

static int install(void)
{
    struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    int result = stack_give();
    ours.sa_sigaction = fault;
    if (result == 0 && (sigaction(SIGSEGV, NULL, &before) != 0 ||
                        sigaction(SIGSEGV, &ours, NULL) != 0))
        result = -errno;
    installed = result == 0;
    return result;
}

/* remove_ours removes our handler, but not if the program put another one in front. */
static void remove_ours(void)
{
    struct sigaction now;
    if (sigaction(SIGSEGV, NULL, &now) != 0 || now.sa_sigaction != fault)
        return;
    sigaction(SIGSEGV, &before, NULL);
    installed = 0;
}

int ps_open_on_touch(int wanted)
{
    pthread_mutex_lock(&switch_lock);
    int was = on, result = wanted && !installed ? install() : 0;
    if (result == 0)
        on = wanted != 0;
    if (!wanted && installed)
        remove_ours();
    pthread_mutex_unlock(&switch_lock);
    return result == 0 ? was : result;
}
