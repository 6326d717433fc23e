/* hostile_handles.h - one of each kind of handle, for the hostile tests that pass them on. */
#ifndef HOSTILE_HANDLES_H
#define HOSTILE_HANDLES_H

#include <fcntl.h>

#include "hostile.h"

static int port, copy, object, view, process, disk, store, file, folder, ends[2];
static uint64_t base;
static const char here[] = "/tmp/hostile";
static char room[8192] __attribute__((aligned(4096)));

static inline void prepare(const char *self)
{
    area_make();
    port = (int)CALL(KD_PORT_CREATE, 0);
    copy = (int)CALL(KD_HANDLE_COPY, port, KD_RIGHT_CALL);
    struct kd_object_create c = {.port = port, .commit_port = port, .cookie = 5, .pages = 8,
                                 .name = "hostile"};
    object = (int)CALL(KD_OBJECT_CREATE, &c);
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_ZERO, .rights = 3, .count = 8};
    CALL(KD_OBJECT_SUPPLY, &s);
    CALL(KD_SPACE_ATTACH, getpid(), object, 3);
    struct kd_process_info list[64];
    CALL(KD_PROCESS_LIST, list, 64);
    view = (int)CALL(KD_VIEW_CREATE, 0);
    store = (int)CALL(KD_NAME_FIND, "store");
    struct kd_block_info info;
    disk = (int)CALL(KD_BLOCK_OPEN, "export", &info);
    const char *argv[] = {self, "nothing", NULL};
    struct kd_process_create p = {.path = self, .argv = argv, .fds = {-1, -1, -1}};
    process = (int)CALL(KD_PROCESS_CREATE, &p);
    child_wait(p.pid);
    file = open(here, O_CREAT | O_RDWR, 0600);
    if (write(file, room, sizeof room) < 0) perror(here);
    folder = open("/tmp", O_RDONLY | O_DIRECTORY);
    if (pipe2(ends, O_NONBLOCK) < 0) perror("pipe");
    base = KD_STORE_BASE;
    for (uint64_t at = KD_STORE_END - KD_ZONE_BYTES; at < KD_STORE_END; at += 1ull << 30) {
        struct kd_space_info i;
        if (CALL(KD_CONTAINER_INFO, at, &i) == 0) { base = at; break; }
        if (at > KD_STORE_END - KD_ZONE_BYTES + (64ull << 30)) break;
    }
}

/* ---- the store as others have it, in a process of its own: here the view entered is not the library's ---- */

struct root { long count; };
static ps_container *c;

static int raise_count(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    root->count++;
    return 0;
}

static inline int role_count(void)
{
    c = ps_open("hostile", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    return c ? -ps_transaction(raise_count, NULL) : errno;
}

#endif
