/* hostile_handles.c - one of each kind of handle. */
#include "hostile_handles.h"

int my_port, copy, my_object, view, process, disk, stream, store, file, folder, ends[2];
uint64_t my_base;
char room[8192] __attribute__((aligned(4096)));

static void object_make(void)
{
    my_port = (int)CALL(KD_PORT_CREATE, 0);
    copy = (int)CALL(KD_HANDLE_COPY, my_port, KD_RIGHT_CALL);
    struct kd_object_create c = {.port = my_port, .commit_port = my_port, .cookie = 5, .pages = 8,
                                 .name = "hostile"};
    my_object = (int)CALL(KD_OBJECT_CREATE, &c);
    struct kd_supply s = {.object = my_object, .source = KD_SUPPLY_ZERO, .rights = 3, .count = 8};
    CALL(KD_OBJECT_SUPPLY, &s);
    CALL(KD_SPACE_ATTACH, getpid(), my_object, 3);
}

static void process_make(const char *self)
{
    const char *argv[] = {self, "nothing", NULL};
    struct kd_process_create p = {.path = self, .argv = argv, .fds = {-1, -1, -1}};
    process = (int)CALL(KD_PROCESS_CREATE, &p);
    child_wait(p.pid);
}

static void files_make(void)
{
    file = open(here, O_CREAT | O_RDWR, 0600);
    if (write(file, room, sizeof room) < 0)
        perror(here);
    folder = open("/tmp", O_RDONLY | O_DIRECTORY);
    if (pipe2(ends, O_NONBLOCK) < 0)
        perror("pipe");
}

/* Looks through the first 64 GiB of the last zone, where the store manager's containers lie. */
static void base_find(void)
{
    const uint64_t first = KD_STORE_END - KD_ZONE_BYTES, last = first + (64ull << 30);
    my_base = KD_STORE_BASE;
    for (uint64_t at = first; at <= last && my_base == KD_STORE_BASE; at += 1ull << 30) {
        struct kd_space_info i;
        if (CALL(KD_CONTAINER_INFO, at, &i) == 0)
            my_base = at;
    }
}

void prepare(const char *self)
{
    struct kd_block_info info;
    area_make();
    object_make();
    view = (int)CALL(KD_VIEW_CREATE, 0);
    store = (int)CALL(KD_NAME_FIND, "store");
    disk = (int)CALL(KD_BLOCK_OPEN, "export", &info);
    stream = (int)CALL(KD_STREAM_OPEN, "inner", CALL(KD_PORT_CREATE, 0), 1); /* if there is one */
    process_make(self);
    files_make();
    base_find();
}

/* ---- the store ---- */

struct root { long count; };
static ps_container *c;

static int raise_count(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    root->count++;
    return 0;
}

int role_count(void)
{
    c = ps_open("hostile", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    return c ? -ps_transaction(raise_count, NULL) : errno;
}
