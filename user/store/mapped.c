/*
 * mapped.c - the metadata in a memory object that the manager maps and serves itself, instead of
 * memory of its own: `store.metadata=mapped`, to be measured (store.md).
 *
 * Pages come as zeros when they are touched first, from a thread that does nothing else and takes
 * no lock. They stay: the metadata are saved by checkpoints, not page by page.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "server.h"

enum { MAPPED_PAGES = 1 << 18 };        /* a GiB of addresses; what is not used takes no memory */

static struct {
    pthread_mutex_t lock;
    int port, object;
    char *at;                           /* NULL: not begun */
    size_t used;                        /* bytes */
    void *freed;                        /* pages; each begins with the address of the next */
} mapped = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *mapped_serve(void *unused)
{
    for (;;) {
        struct kd_message m = {.handle = -1};
        if (KD3(KD_PORT_RECEIVE, mapped.port, &m, -1)) return unused;
        if (m.kind != (uint32_t)KD_MSG_PAGE) continue;
        struct kd_supply s = {.object = mapped.object, .source = KD_SUPPLY_ZERO,
                              .rights = KD_READ | KD_WRITE, .page = m.word[1], .count = 1};
        long r = KD1(KD_OBJECT_SUPPLY, &s);
        if (r < 0) KD4(KD_OBJECT_FAIL, mapped.object, m.word[1], 1, -r);
    }
}

/* mapped_begin makes the object and its thread: 0 or -errno. Locked. */
static long mapped_begin(void)
{
    pthread_t thread;
    struct kd_object_create c = {.pages = MAPPED_PAGES, .name = "metadata"};
    long r = KD1(KD_PORT_CREATE, 0);
    c.port = c.commit_port = mapped.port = (int)r;
    if (r >= 0) r = KD1(KD_OBJECT_CREATE, &c);
    mapped.object = (int)r;
    if (r >= 0) r = KD4(KD_OBJECT_ADVISE, r, 0, MAPPED_PAGES, KD_ADVISE_RANDOM);
    if (r >= 0)
        r = KD3(KD_SPACE_ATTACH, getpid(), mapped.object, KD_RIGHT_READ | KD_RIGHT_WRITE);
    if (r >= 0) r = -pthread_create(&thread, NULL, mapped_serve, NULL);
    if (r >= 0) mapped.at = (char *)c.base;
    return r;
}

void *mapped_alloc(size_t bytes)
{
    void *memory = NULL;
    size_t whole = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    pthread_mutex_lock(&mapped.lock);
    if (!mapped.at) (void)mapped_begin(); /* else it fails below: no memory */
    if (mapped.at && bytes == PAGE_BYTES && mapped.freed) {
        memory = mapped.freed;
        mapped.freed = *(void **)memory;
    } else if (mapped.at && (size_t)MAPPED_PAGES * PAGE_BYTES - mapped.used >= whole) {
        memory = mapped.at + mapped.used;
        mapped.used += whole;
    }
    pthread_mutex_unlock(&mapped.lock);
    return memory;
}

bool mapped_has(const void *memory)
{
    return mapped.at && (size_t)((const char *)memory - mapped.at) <
                            (size_t)MAPPED_PAGES * PAGE_BYTES;
}

bool mapped_free(void *memory, size_t bytes)
{
    pthread_mutex_lock(&mapped.lock);
    bool mine = mapped_has(memory);
    if (mine && bytes == PAGE_BYTES) {
        *(void **)memory = mapped.freed;
        mapped.freed = memory;
    }
    pthread_mutex_unlock(&mapped.lock);
    return mine;
}

/* mapped_io moves each page over a buffer: disks take a process's own memory only. */
long mapped_io(long number, int disk, uint64_t offset, void *buffer, size_t bytes)
{
    static _Thread_local char own[PAGE_BYTES];
    long r = 0;
    for (size_t at = 0, part; at < bytes && r >= 0; at += part) {
        part = bytes - at < PAGE_BYTES ? bytes - at : PAGE_BYTES;
        if (number == KD_BLOCK_WRITE) memcpy(own, (char *)buffer + at, part);
        r = KD4(number, disk, offset + at, own, part);
        if (number == KD_BLOCK_READ && r >= 0) memcpy((char *)buffer + at, own, part);
    }
    return r;
}
