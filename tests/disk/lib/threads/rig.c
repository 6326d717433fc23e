/*
 * rig.c - see rig.h.
 */
#include "threads/rig.h"

#include <sys/mman.h>

struct shared *shared;
atomic_int writes_left = -1, flushes_left = -1, homes_left = -1;
int log_writes_after_failure;
bool failed;
uint64_t unreadable_from, unreadable_to;
atomic_bool copy_waits, starving;
void (*flush_beside)(void), (*read_beside)(void);
pthread_mutex_t kernel = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t posted = PTHREAD_COND_INITIALIZER;
uint64_t credits;
bool no_object;
long (*object_call)(long number, long a, long b);
const void *next_batch;
uint64_t next_batch_bytes;
uint32_t next_lazy;
atomic_uint nice_reads, nice_answers;
bool eio_early;
struct kd_message backup_reply;
atomic_bool backup_replied;

/* ---- the disk ---- */

static bool fails(atomic_int *left)
{
    if (failed) log_writes_after_failure++;
    if (*left < 0 || (*left)-- > 0) return false;
    failed = true;
    return true;
}

static long block_write(uint64_t offset, const void *bytes, uint64_t count)
{
    if (starving) server.store->checkpoint.short_of_memory = true;
    if (fails(&writes_left)) return -EIO;
    memcpy(shared->disk + offset, bytes, count);
    return 0;
}

/* ---- the kernel ---- */

static long receive(long port, struct kd_message *m, long timeout_ms)
{
    struct timespec until;
    long result = timeout_ms ? -ETIMEDOUT : -EAGAIN;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms < 0 ? 1000 : timeout_ms / 1000 + 1;
    pthread_mutex_lock(&kernel);
    do {
        if (port == server.commit_port && commit_take(m) == 0) result = 0;
    } while (result < 0 && timeout_ms && !pthread_cond_timedwait(&posted, &kernel, &until));
    pthread_mutex_unlock(&kernel);
    return result;
}

void view_answered(void) { pthread_cond_broadcast(&posted); }

int home_write(uint64_t offset, const void *bytes)
{
    if (starving) server.store->checkpoint.short_of_memory = true;
    if (fails(&homes_left)) return -EIO;
    memcpy(shared->disk + offset, bytes, 4096);
    return 0;
}

static long copy_write_to(uint64_t offset, const void *bytes, uint64_t count)
{
    while (copy_waits) {                /* others go on: kd_system() holds this */
        pthread_mutex_unlock(&kernel);
        usleep(1000);
        pthread_mutex_lock(&kernel);
    }
    memcpy(shared->copy + offset, bytes, count);
    return 0;
}

static long kernel_call(long number, long a, long b, long c, long d)
{
    if (object_call && (number == KD_OBJECT_CREATE || number == KD_OBJECT_DESTROY ||
                        number == KD_SPACE_ATTACH || number == KD_SPACE_DETACH ||
                        number == KD_SPACE_RIGHTS))
        return object_call(number, a, b);
    switch (number) {
    case KD_BLOCK_OPEN:
        if (strchr((const char *)a, '.')) return -ENODEV; /* it is the only one of its store */
        *(struct kd_block_info *)b = (struct kd_block_info){ DISK_BYTES, 512, 0 };
        return 1;
    case KD_BLOCK_READ:
        nice_reads += niceness == 19;
        if ((uint64_t)b < unreadable_to && (uint64_t)(b + d) > unreadable_from) return -EIO;
        memcpy((void *)c, shared->disk + b, (size_t)d);
        return 0;
    case KD_PORT_REPLY:
        nice_answers += niceness == 19;
        if (a == BACKUP_TOKEN) backup_reply = *(struct kd_message *)b;
        if (a == BACKUP_TOKEN) backup_replied = true;
        break;
    case KD_BLOCK_WRITE:
        return a == COPY ? copy_write_to((uint64_t)b, (void *)c, (uint64_t)d)
                         : block_write((uint64_t)b, (void *)c, (uint64_t)d);
    case KD_BLOCK_FLUSH: return a != COPY && fails(&flushes_left) ? -EIO : 0;
    case KD_BLOCK_WRITE_PAGES: return kernel_homes((void *)b, c);
    case KD_OBJECT_CREATE: if (no_object) return -ENOMEM; break;
    case KD_TXN_REFUSE: eio_early |= c == EIO && !server.fenced; break;
    case KD_CREDIT_GRANT: credits += (uint64_t)b; return 1;
    case KD_PORT_NOTIFY: pthread_cond_broadcast(&posted); break;
    default: break;
    }
    return kernel_plain(number, a, b, c, d);
}

long kd_system(long number, long a, long b, long c, long d)
{
    if (number == KD_PORT_RECEIVE) return receive(a, (void *)b, c);
    void (**beside)(void) = number == KD_BLOCK_FLUSH ? &flush_beside : &read_beside,
         (*now)(void) = *beside;
    if (now && (number == KD_BLOCK_FLUSH || number == KD_BLOCK_READ)) {
        *beside = NULL;
        now();
    }
    pthread_mutex_lock(&kernel);
    long r = kernel_call(number, a, b, c, d);
    pthread_mutex_unlock(&kernel);
    return r;
}

/* ---- clients ---- */

void client_start(void)
{
    struct wire_open how = {.flags = PS_CREATE | PS_WRITE, .name = "box"};
    struct wire_opened out;
    CHECK(manager_start());
    CHECK(container_open(CLIENT, &how, &out) == 0 && out.container == 1);
}

void commit_post(unsigned i, uint64_t first, uint64_t count, uint64_t value)
{
    pthread_mutex_lock(&kernel);
    uint64_t token = view[i].token + 1;
    view[i] = (struct view){.queued = true, .token = token, .first = first, .count = count,
                            .value = value, .batch = next_batch,
                            .batch_bytes = next_batch_bytes, .lazy = next_lazy};
    next_lazy = 0;
    next_batch = NULL;
    next_batch_bytes = 0;
    for (uint64_t p = first; p < first + count; p++) shared->tried[p] = value;
    pthread_cond_broadcast(&posted);
    pthread_mutex_unlock(&kernel);
}

int commit_wait(unsigned i)
{
    pthread_mutex_lock(&kernel);
    while (!view[i].answered) pthread_cond_wait(&posted, &kernel);
    for (uint64_t p = view[i].first; p < view[i].first + view[i].count; p++)
        if (view[i].answer == 0)
            shared->acknowledged[p] = view[i].value;
        else if (view[i].answer != -EIO)
            shared->tried[p] = shared->acknowledged[p]; /* refused: it has left nothing */
    pthread_mutex_unlock(&kernel);
    return view[i].answer;
}

int commit(uint64_t first, uint64_t count, uint64_t value)
{
    commit_post(0, first, count, value);
    return commit_wait(0);
}

void stop_and_wait(void)
{
    CHECK(!manager_stop(CLIENT) && manager_stop(1));    /* init */
    for (;;) pause();
}

/* ---- the parent ---- */

static void run_to(int wanted, void (*body)(void))
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        body();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, wanted << 8);
}

void run_child_to(int wanted, void (*body)(void))
{
    memset(shared, 0, sizeof(*shared));
    run_to(wanted, body);
}
void run_child(void (*body)(void)) { run_child_to(0, body); }
void run_next(void (*body)(void)) { run_to(0, body); }

static int image_read(void *c, uint64_t at, void *to, size_t n)
{
    (void)c;
    memcpy(to, shared->disk + at, n);
    return 0;
}

static int disk_image_write(void *c, uint64_t at, const void *from, size_t n)
{
    (void)c;
    memcpy(shared->disk + at, from, n);
    return 0;
}

static int image_flush(void *c) { (void)c; return 0; }

struct disk_io disk_left(void)
{
    return (struct disk_io){ .bytes = DISK_BYTES, .read = image_read, .write = disk_image_write,
                             .flush = image_flush };
}

bool recover_and_compare(void)
{
    const struct disk_io io = disk_left();
    struct store_report report;
    struct store *store;
    uint64_t words[512];
    const char *why;
    assert_int_equal(store_open(&io, &disk_memory, NULL, &store, &report), 0);
    for (uint64_t p = 0; p < PAGES; p++) {
        assert_int_equal(store_page_read(store, 1, p, words), 0);
        if (words[8] != shared->tried[p]) assert_int_equal(words[8], shared->acknowledged[p]);
    }
    assert_int_equal(store_check(store, &why), 0);
    store_abandon(store);
    return report.was_clean;
}

void memory_share(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
