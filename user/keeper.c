/*
 * keeper.c - starts and ends the programs that are managers of containers (user/store/kept.c).
 *
 *     keeper STORE         run by init, one for each store; nobody else has a use for it
 *
 * The store says what to do, in answers to STORE_KEEPER; here is only what the store must not do
 * itself, for it has the disk: making processes. A program is confined: it gets a handle of the
 * directory that its container lies in, which comes with the order, and no other; no input, a limit
 * of memory, may make no process, and what it prints goes to the kernel's log. When the store dies,
 * all of its programs are ended, and so is the keeper: init starts both again.
 *
 * The kernel gives the number of a process that has ended to no other one, so an order to kill
 * that comes too late harms nobody.
 *
 * Locks: `lock` for the table of programs.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <katydid/call.h>

#include "store/copy_protocol.h"
#include "store_protocol.h"

enum {
    PROGRAMS_MAX = 16, WORDS_MAX = 64, LINE_BYTES = 200,
    LINES_MAX = 100,                    /* of one program's life go to the log */
    MEMORY_SHARE = 4,                   /* a program has this part of the memory at most */
    HANDLES = 64, THREADS = 32,
};

static struct program { uint64_t key; int pid; } programs[PROGRAMS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *store;
static int port;
static uint64_t memory_bytes;

static long ask(struct kd_message *m)
{
    long r = kd_call3(KD_PORT_CALL, port, (long)m, 0);
    return r < 0 ? r : m->status;
}

static void ended(uint64_t container, uint64_t key, int64_t status)
{
    struct kd_message m = {.kind = STORE_ENDED, .handle = -1,
                           .word = {container, key, (uint64_t)status}};
    (void)ask(&m);
}

/* ---- one program, by a thread of its own ---- */

/* A line into the kernel's log. */
static void line_say(const char *name, const char *line, size_t bytes)
{
    char text[LINE_BYTES + 80];
    int length = snprintf(text, sizeof(text), "manager of %s: %.*s", name, (int)bytes, line);
    kd_call3(KD_KERNEL_LOG, (long)text, length, 0);
}

/* What it prints goes there, until it has ended: so many lines, long ones in parts. */
static void log_lines(int from, const char *name)
{
    char line[LINE_BYTES];
    size_t used = 0;
    unsigned said = 0;
    for (ssize_t got; (got = read(from, line + used, sizeof(line) - used)) > 0;) {
        used += (size_t)got;
        for (;;) {
            const char *end = memchr(line, '\n', used);
            size_t bytes = end ? (size_t)(end - line) : used;
            if (!end && used < sizeof(line)) break;
            if (said++ < LINES_MAX) line_say(name, line, bytes);
            bytes += end != NULL;
            memmove(line, line + bytes, used -= bytes);
        }
    }
    if (used && said < LINES_MAX) line_say(name, line, used);
}

/* What is to be started, and the handle that it begins with. */
struct job { struct wire_order o; int root; };

static int make(const struct job *j, int out)
{
    const struct wire_order *o = &j->o;
    char kept[256], where[96], roots[96];
    char *argv[WORDS_MAX + 1] = {0};
    unsigned words = 0;
    for (uint32_t at = 0; at < o->text_bytes && words < WORDS_MAX; words++) {
        argv[words] = (char *)o->text + at;
        at += (uint32_t)strlen(argv[words]) + 1;
    }
    snprintf(kept, sizeof(kept), STORE_KEPT_BY "=%s %llu %llu %llu %llu %llu %s", store,
             (unsigned long long)o->container, (unsigned long long)o->key,
             (unsigned long long)o->base, (unsigned long long)o->pages,
             (unsigned long long)o->segments, o->name);
    snprintf(where, sizeof(where), "PS_STORE=%s", store);
    snprintf(roots, sizeof(roots), "PS_ROOTS=%s:0", store);
    const char *envp[] = {"PATH=/bin", "HOME=/tmp", where, kept, roots, NULL};
    int nothing = open("/dev/null", O_RDONLY);
    struct kd_process_create c = {.path = argv[0], .argv = (const char *const *)argv, .envp = envp,
                                  .fds = {nothing, out, out}, .flags = KD_PROCESS_CONFINED,
                                  .handle_count = 1, .handles = {j->root},
                                  .handle_rights = {KD_RIGHT_CALL | WIRE_KEPT_MAY}};
    c.limits[KD_LIMIT_MEMORY] = memory_bytes / MEMORY_SHARE;
    c.limits[KD_LIMIT_HANDLES] = HANDLES;
    c.limits[KD_LIMIT_THREADS] = THREADS;
    c.limits[KD_LIMIT_PROCESSES] = 1;
    long handle = j->root < 0 ? -EACCES : words ? 0 : -ENOEXEC;
    if (handle == 0) handle = kd_call3(KD_PROCESS_CREATE, (long)&c, 0, 0);
    if (nothing >= 0) close(nothing);
    if (handle >= 0) kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return handle < 0 ? (int)handle : c.pid;
}

static struct program *program_of(uint64_t key)
{
    for (struct program *p = programs; p < programs + PROGRAMS_MAX; p++)
        if (p->key == key) return p;
    return NULL;
}

/* Starts it, unless it was to be killed before that; its pid. */
static int begin(struct program *p, const struct job *j, int out)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)(j->o.delay_ms / 1000),
                                 .tv_nsec = (long)(j->o.delay_ms % 1000) * 1000000}, NULL);
    pthread_mutex_lock(&lock);
    int pid = p->pid < 0 ? -ECANCELED : make(j, out);
    if (pid > 0) p->pid = pid;
    pthread_mutex_unlock(&lock);
    return pid;
}

static void *life(void *arg)
{
    struct job *j = arg;
    const struct wire_order *o = &j->o;
    int ends[2], status = 0, pid = pipe(ends) == 0 ? 0 : -errno;
    struct program *p = program_of(o->key);
    if (pid == 0) {
        pid = begin(p, j, ends[1]);
        close(ends[1]);
        if (pid > 0) log_lines(ends[0], o->name);
        close(ends[0]);
    }
    if (j->root >= 0) kd_call3(KD_HANDLE_CLOSE, j->root, 0, 0);
    if (pid > 0) kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
    pthread_mutex_lock(&lock);
    *p = (struct program){0};
    pthread_mutex_unlock(&lock);
    ended(o->container, o->key, pid < 0 ? pid : status);
    free(j);
    return NULL;
}

/* ---- what the store says ---- */

static void start(const struct wire_order *order, int root)
{
    pthread_t thread;
    pthread_attr_t how;
    struct job *j = malloc(sizeof(*j));
    pthread_mutex_lock(&lock);
    struct program *p = j ? program_of(0) : NULL;
    if (p) *p = (struct program){.key = order->key};
    pthread_mutex_unlock(&lock);
    if (j) *j = (struct job){*order, root};
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, 32 << 10);
    if (p && pthread_create(&thread, &how, life, j) == 0) {
        pthread_detach(thread);
        return;
    }
    pthread_mutex_lock(&lock);
    if (p) *p = (struct program){0};
    pthread_mutex_unlock(&lock);
    free(j);
    if (root >= 0) kd_call3(KD_HANDLE_CLOSE, root, 0, 0);
    ended(order->container, order->key, -ENOMEM);
}

/* One of an earlier keeper's is not in the table: nobody waits for its end. */
static void kill_program(const struct wire_order *o)
{
    pthread_mutex_lock(&lock);
    struct program *p = program_of(o->key);
    int pid = p ? p->pid : (int)o->process;
    if (p && p->pid == 0) p->pid = -1; /* it is not to begin */
    if (pid > 0) kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    pthread_mutex_unlock(&lock);
    if (!p) ended(o->container, o->key, 9);
}

static int kill_all(void)
{
    pthread_mutex_lock(&lock);
    for (struct program *p = programs; p < programs + PROGRAMS_MAX; p++)
        if (p->key && p->pid > 0) kd_call3(KD_PROCESS_KILL, p->pid, 9, 0);
    return 0; /* the lock is kept: nothing begins any more */
}

/* One of two copies is waited for: it answers when it is home. That is the first store. */
static int store_find(void)
{
    bool may = strcmp(store, "store") == 0;
    for (;;) {
        long found = kd_call3(KD_NAME_FIND, (long)store, 0, 0);
        long copy = found < 0 && may ? kd_call3(KD_NAME_FIND, (long)COPY_PORT, 0, 0) : found;
        if (found >= 0 || copy < 0) return (int)found;
        kd_call3(KD_HANDLE_CLOSE, copy, 0, 0);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
}

int main(int argc, char **argv)
{
    struct wire_order order;
    struct kd_system_info info;
    struct kd_message m = {.kind = STORE_KEEPER, .handle = KD_SYSTEM_HANDLE,
                           .handle_rights = KD_RIGHT_PROCESSES, .word = {1}};
    if (argc != 2 || argv[1][0] == '-') {
        fprintf(stderr, "use: keeper STORE; init runs it, for managers of containers\n");
        return 2;
    }
    store = argv[1];
    port = store_find();
    if (port < 0) return 0; /* the store is gone again */
    if (kd_call3(KD_SYSTEM_INFO, (long)&info, 0, 0) < 0) return 1;
    memory_bytes = info.memory_bytes;
    for (;;) {
        m.buffer = &order;
        m.buffer_bytes = sizeof(order);
        if (ask(&m) < 0 || m.buffer_bytes != sizeof(order)) return kill_all();
        if (order.what == WIRE_START)
            start(&order, m.handle);
        else
            kill_program(&order);
        m = (struct kd_message){.kind = STORE_KEEPER, .handle = -1};
    }
}
