/*
 * hostile_calls - every call with every kind of bad argument.
 *
 * Aim     any pointer, length, handle or flag gives an errno, and costs nobody else anything.
 * Method  tables: each call stands in one with arguments that are good but for one, which is
 *         replaced. In the end everything is counted. hostile_fuzz.c makes calls at random.
 */
#include "calls.h"

static void *commits_to_itself(void *unused)
{
    (void)unused;
    struct kd_object_create c = {.port = my_port, .commit_port = my_port, .pages = 1,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "itself"};
    CALL(KD_OBJECT_CREATE, &c);
    CALL(KD_VIEW_ENTER, CALL(KD_VIEW_CREATE, 0));
    struct kd_begin b = {ABORTS};
    struct kd_commit k = {.batch = room, .batch_bytes = 64, .port = my_port};
    CALL(KD_TXN_BEGIN, &b);
    CALL(KD_TXN_COMMIT, &k);
    return NULL;
}

static void scenes(const char *self)
{
    int p = (int)CALL(KD_PORT_CREATE, 0);
    tap_ok(CALL(KD_PORT_NOTIFY, p, 1) == 0 && CALL(KD_HANDLE_CLOSE, p) == 0,
           "a port is closed with a notice in it");
    is(child_wait_for(child_start(self, "itself", NULL), 1), -ETIMEDOUT,
       "who waits for his own answer to a commit can be killed");
    p = (int)CALL(KD_PORT_CREATE, 0);
    struct kd_object_create c = {.port = p, .commit_port = p, .base = KD_STORE_BASE, .name = "all",
                                 .pages = (KD_STORE_END - KD_STORE_BASE) / KD_PAGE_BYTES};
    int o = (int)CALL(KD_OBJECT_CREATE, &c);
    tap_ok(CALL(KD_OBJECT_RECALL, o, 0, c.pages) == 0 && CALL(KD_OBJECT_PIN, o, 0, c.pages, 0) == 0
               && CALL(KD_OBJECT_FAIL, o, 0, c.pages, EIO) == 0
               && CALL(KD_OBJECT_INFO, o, 0, c.pages, area) == -EFAULT,
           "ranges of 64 TiB take no time");
    int client = child_start(self, "nothing", NULL);
    CALL(KD_SPACE_ATTACH, client, o, 3);
    child_wait(client);
    tap_ok(CALL(KD_HANDLE_CLOSE, p) == 0 && CALL(KD_OBJECT_DESTROY, o) == 0,
           "an object and its port end with news of a client in it");
    mkdir("/tmp/gone", 0700);
    int moved = chdir("/tmp/gone") == 0 && rmdir("/tmp/gone") == 0;
    tap_ok(moved && CALL(SYS_rename, here, "x") == -ENOENT
               && CALL(SYS_open, "x", O_CREAT | O_RDWR, 0600) == -ENOENT && chdir("/tmp") == 0,
           "nothing is put into a folder that is gone");
    is(child_run(self, "orphan", NULL), 0, "an orphan, of whom init takes care,");
    usleep(300000);
    tap_ok(1, "does not halt the machine");
    int good = 1;
    for (int i = 0; i < 300; i++) {
        struct kd_message m = {.kind = STORE_HELLO, .word = {STORE_PROTOCOL_VERSION},
                               .handle = copy, .handle_rights = KD_RIGHT_CALL};
        good &= CALL(KD_PORT_CALL, store, &m) == 0;
    }
    ps_container *some = ps_open("after-handles", PS_CREATE | PS_WRITE, NULL);
    tap_ok(good && some && ps_close(some) == 0 && ps_delete("after-handles") == 0,
           "handles sent to the store manager do not fill its table");
}

static int role(char **argv)
{
    const char *what = argv[1];
    if (strcmp(what, "count") == 0) return role_count();
    if (strcmp(what, "itself") == 0) {
        my_port = (int)CALL(KD_PORT_CREATE, 0);
        commits_to_itself(NULL);
        return 1;
    }
    if (strcmp(what, "orphan") == 0) return child_start(argv[0], "halt", NULL) < 0;
    if (strcmp(what, "halt") == 0) {
        usleep(100000); /* the parent has ended */
        CALL(KD_HALT, 55);
    }
    return 0;
}

/* A stream to read from has something to be read, more than all cases take. */
static bool stream_filled(void)
{
    static char bytes[4096];
    int outer = (int)CALL(KD_STREAM_OPEN, "outer", CALL(KD_PORT_CREATE, 0), 1);
    long n, all = 0;
    while ((n = CALL(KD_STREAM_WRITE, outer, bytes, sizeof bytes)) > 0 || n == -ENOTCONN ||
           all < (long)(16 * sizeof bytes)) {
        if (n < 0 && n != -EAGAIN && n != -ENOTCONN) break;
        all += n > 0 ? n : 0;
    }
    while ((n = CALL(KD_STREAM_READ, stream, bytes, 1)) == -EAGAIN || n == -ENOTCONN) {}
    return n == 1;
}

int main(int argc, char **argv)
{
    if (argc > 1) return role(argv);
    static char self[64];
    const char *name = strrchr(argv[0], '/');
    snprintf(self, sizeof self, "/bin/%s", name ? name + 1 : argv[0]);
    tap_plan(34);
    is(child_run(self, "count", NULL), 0, "a counter is made");
    prepare(self);
    tap_ok(my_port >= 0 && copy >= 0 && my_object >= 0 && view >= 0 && process >= 0 && disk >= 0
               && store >= 0 && file >= 0 && my_base != KD_STORE_BASE, "one of each handle");
    tap_ok(stream_filled(), "one stream leads in again");
    ps_list(&(struct ps_info){0}, 1); /* the library keeps its handle */
    const struct counts before = counts_now();
    katydid_pointers();
    linux_pointers();
    inner_pointers(self);
    handles();
    katydid_values();
    object_structures();
    supply_structures();
    process_structures(self);
    message_structures();
    transaction_structures();
    linux_values();
    disk_opened();
    none_forgotten();
    scenes(self);
    tap_ok(counts_back(before, MANAGER_KEEPS),
           "frames, objects, processes, views, handles and credits are back");
    tap_ok(check_clean(), "kcheck");
    is(child_run(self, "count", NULL), 0, "the store manager lives, and a commit works");
    return tap_end();
}
