/*
 * store_small.c - a machine of 22 MiB, and programs with little memory: stacks count as they grow.
 *
 * Aim     the store is formatted and commits there: a first thread's stack promises a step, not its
 *         8 MiB; it grows down to them, each step counts as promised, what is promised can be
 *         filled, and a touch that finds no memory ends the program.
 * Method  children with a limit go down by a page or more at a time, or map until they may not.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "process.h"
#include "pstore_test.h"
#include "tap.h"

enum { LITTLE = 4 << 20, PIECE = 64 << 10, PIECES = 256, KILLED = 139 };

static int add_one(void *root) { return ++*(long *)root, 0; }

static long commits(void)
{
    ps_container *c = ps_open("small", PS_CREATE | PS_WRITE, &(struct ps_layout){"long", 1, 8});
    int error = c ? 0 : -errno;
    for (int i = 0; i < 20 && !error; i++)
        error = ps_begin(NULL) || add_one(ps_root(c)) ? -errno : ps_commit();
    ps_close(c);
    return error;
}

/* Goes so many bytes down the stack, and touches it at each step. */
static __attribute__((noinline)) int deep(long bytes, long step)
{
    volatile char here[1024];
    here[0] = 1;
    for (char *from = (char *)here - step; bytes > step; bytes -= step, from -= step)
        *(volatile char *)from = 1;
    return here[0] - 1;
}

static int map_all(char **pieces)
{
    int n = 0;
    while (n < PIECES && (pieces[n] = mmap(NULL, PIECE, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED)
        n++;
    return n;
}

/* How many pieces fewer can be mapped when the stack has grown; all are filled. */
static int fewer(long grown)
{
    static char *pieces[PIECES];
    int before = map_all(pieces);
    for (int i = 0; i < before; i++)
        memset(pieces[i], 1, PIECE);
    for (int i = 0; i < before; i++)
        munmap(pieces[i], PIECE);
    return deep(grown, KD_PAGE_BYTES) ? -1 : before - map_all(pieces);
}

static int child(const char *self, const char *what, long most, long bytes, long step)
{
    char path[128], numbers[2][24];
    const char *name = strrchr(self, '/'), *argv[] = {self, what, numbers[0], numbers[1], NULL};
    struct kd_process_create p = {.path = path, .argv = argv, .fds = {-1, 1, 2}};
    snprintf(path, sizeof path, "/bin/%s", name ? name + 1 : self);
    snprintf(numbers[0], sizeof numbers[0], "%ld", bytes);
    snprintf(numbers[1], sizeof numbers[1], "%ld", step);
    p.limits[KD_LIMIT_MEMORY] = (uint64_t)most;
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    return handle < 0 ? (int)handle : child_wait(p.pid);
}

int main(int argc, char **argv)
{
    struct rlimit l = {0};
    if (argc == 4)
        return argv[1][0] == 'd' ? deep(atol(argv[2]), atol(argv[3])) : fewer(atol(argv[2]));
    tap_plan(8);
    is(commits(), 0, "a machine of 22 MiB formats a store and commits");
    tap_ok(getrlimit(RLIMIT_STACK, &l) == 0 && l.rlim_cur == 8 << 20, "a stack may have 8 MiB");
    is(child(*argv, "deep", LITTLE, 0, 1), 0, "a program starts that may have 4 MiB");
    is(child(*argv, "deep", LITTLE, 2 << 20, KD_PAGE_BYTES), 0, "and its stack grows to 2");
    is(child(*argv, "deep", LITTLE, 5 << 20, KD_PAGE_BYTES), KILLED, "but not beyond its limit");
    is(child(*argv, "deep", 0, (8 << 20) - (64 << 10), PIECE), 0, "others to 8 MiB, nearly");
    is(child(*argv, "deep", 0, (8 << 20) + PIECE, PIECE), KILLED, "and no further");
    is(child(*argv, "fewer", LITTLE, (1 << 20) - (16 << 10), 0), 12,
       "what was promised can be filled; a stack of a MiB is promised, in four steps");
    return tap_end();
}
