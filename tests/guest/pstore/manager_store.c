/*
 * manager_store.c - managers with a protocol of their own (km_protocol), and whole stores of a
 * manager's (manager_store.h) whose pages have a policy.
 *
 * Aim     all that libpstore does works on such a store while its pages leave memory behind each
 *         commit, and come again from the policy; aborts undo; what is freed comes back as zeros;
 *         the policy may refuse a commit. A protocol's messages come as they are, with who sent
 *         them; it lets processes in and out, and hears of their ends.
 * Method  the store is served by a thread of this process, so the policy's counts can be seen; the
 *         protocol by a child, its client is another one, too.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "manager.h"
#include "manager_store.h"
#include "pstore_test.h"

enum { PAGES = 1024, OBJECTS = 4, RECORDS = 300, ROUNDS = 4, BLOCK = 100000 };

/* ---- the policy ---- */

static struct home { struct km_object *of; char have[PAGES], page[PAGES][KM_PAGE_BYTES]; }
    homes[OBJECTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int supplied, kept, emptied, refuses;    /* atomic */

static struct home *home_of(struct km_object *o)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < OBJECTS - 1 && homes[i].of && homes[i].of != o) i++;
    homes[i].of = o;
    pthread_mutex_unlock(&lock);
    return &homes[i];
}

static void page(struct km_request *r)
{
    struct home *h = home_of(r->object);
    int there = __atomic_load_n(&h->have[r->page], __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&supplied, there, __ATOMIC_SEQ_CST);
    if ((there ? km_supply(r, h->page[r->page], 1) : km_zero(r)) == -ENOMEM) km_fail(r, ENOMEM);
}

static void clean(struct km_object *o, const uint64_t *pages, unsigned count)
{
    struct home *h = home_of(o);
    uint64_t csn;
    for (unsigned i = 0; i < count; i++) {
        if (km_read(o, pages[i], h->page[pages[i]], &csn)) continue;
        __atomic_store_n(&h->have[pages[i]], 1, __ATOMIC_SEQ_CST);
        if (km_cleaned(o, pages[i], csn) == 0) __atomic_fetch_add(&kept, 1, __ATOMIC_SEQ_CST);
    }
}

static int commit(struct km_object *o, uint64_t view)
{
    (void)o, (void)view;
    return __atomic_load_n(&refuses, __ATOMIC_SEQ_CST) ? -EACCES : 0;
}

/* All that can leave memory does. */
static void outcome(struct km_object *o, uint64_t view, int error, uint64_t csn)
{
    (void)view, (void)error, (void)csn;
    km_clean(o, 0, PAGES);
    km_advise(o, 0, PAGES, KM_EVICT);
}

static void freed(struct km_object *o, uint64_t at)
{
    __atomic_store_n(&home_of(o)->have[at], 0, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&emptied, 1, __ATOMIC_SEQ_CST);
}

static void *serve(void *unused)
{
    static const struct km_ops ops = {.page = page, .clean = clean, .commit = commit,
                                      .outcome = outcome};
    km_store_serve(&(struct km_store){.name = "own store", .pages = PAGES, .ops = &ops,
                                      .freed = freed}, 2);
    return unused;
}

/* ---- its client ---- */

struct record { struct record *next; long value; char other[1500]; };
struct root { struct record *first; char *block; };
static ps_container *c;

static int add(void *number)
{
    struct root *root = ps_root(c);
    struct record *r = root ? ps_new(c, struct record, NULL) : NULL;
    if (!r) return -errno;
    *r = (struct record){.next = root->first, .value = *(long *)number};
    root->first = r;
    return *(long *)number < 0 ? -ECANCELED : 0;
}

static int sum(void *out)
{
    struct root *root = ps_root(c);
    *(long *)out = 0;
    for (struct record *r = root->first; r; r = r->next) *(long *)out += r->value;
    return 0;
}

static long sum_now(void)
{
    long n = 0;
    int e = ps_transaction(sum, &n);
    return e ? e : n;
}

static int block_make(void *unused)
{
    struct root *root = ps_root(c);
    (void)unused;
    root->block = ps_alloc(c, BLOCK, NULL);
    for (int i = 0; root->block && i < BLOCK; i++)
        if (root->block[i]) return -EBADMSG;
    if (root->block) memset(root->block, 7, BLOCK);
    return root->block ? 0 : -errno;
}

static int block_free(void *unused)
{
    struct root *root = ps_root(c);
    (void)unused;
    int error = ps_free(root->block);
    root->block = NULL;
    return error;
}

static int block_share(void *snapshot)
{
    struct root *root = ps_root(c);
    *(int *)snapshot = ps_snapshot_share();
    return root->block ? 0 : -EIO;
}

static int block_wrong(void *count)
{
    struct root *root = ps_root(c);
    *(long *)count = 0;
    for (int i = 0; i < BLOCK; i += KM_PAGE_BYTES) *(long *)count += root->block[i] != 7;
    return 0;
}

/* A snapshot that is older than the free sees what was there, or ends; never zeros. */
static int old_sees(long *count)
{
    int shared = 0;
    struct ps_options options = {.isolation = PS_SNAPSHOT};
    int error = ps_transaction(block_make, NULL);
    if (!error) error = ps_transaction_opt(block_share, &shared, &options);
    if (!error) error = ps_transaction(block_free, NULL);
    options.snapshot = shared;
    return error ? error : ps_transaction_opt(block_wrong, count, &options);
}

static void test_store(void)
{
    pthread_t thread;
    long count = -1;
    long wanted = 0, undone = -1;
    int error = 0;
    memset(homes, 0, sizeof homes);             /* cleaning takes no memory */
    pthread_create(&thread, NULL, serve, NULL);
    while (ps_connect("own store")) sched_yield();
    c = ps_open("box", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    tap_ok(c != NULL, "a container in a store of the manager's own");
    for (long i = 0; i < RECORDS && !error; i++, wanted += i) {
        long n = i + 1;
        error = ps_transaction(add, &n);
    }
    is(error, 0, "a list, record by record");
    is(sum_now(), wanted, "is as it should be");
    tap_ok(kept > RECORDS / 2 && supplied > RECORDS / 10, "its pages went out and came again");
    is(ps_transaction(add, &undone), -ECANCELED, "an abort");
    is(sum_now(), wanted, "undoes");
    for (int i = 0; i < ROUNDS * 10 && !error; i++) {
        error = ps_transaction(block_make, NULL);
        if (!error) error = ps_transaction(block_free, NULL);
    }
    is(error, 0, "what is freed is given out again as zeros");
    tap_ok(emptied > BLOCK / KM_PAGE_BYTES, "of which the policy heard");
    error = old_sees(&count);
    tap_ok(error == -ESTALE || count == 0, "an older snapshot sees no zeros there (%d: %ld)", error,
           count);
    refuses = 1;
    is(ps_transaction(add, &wanted), -EACCES, "the policy refuses a commit");
    refuses = 0;
    is(sum_now(), wanted, "which is undone");
    tap_ok(ps_close(c) == 0 && ps_delete("box") == 0 && !ps_open("box", 0, NULL),
           "it is closed and deleted");
    is(km_protocol("more", &(struct km_protocol){0}), -EINVAL, "one process has one protocol");
}

/* ---- a protocol ---- */

enum { REVERSE = 1, LET_IN, PUT_OUT, GONE };
static struct km_object *object;
static int gone_count;

static int message(struct km_message *m)
{
    static char text[64];
    m->reply[0] = m->word[0] + 1;
    switch (m->kind) {
    case REVERSE:
        for (uint64_t i = 0; i < m->bytes && i < sizeof text; i++)
            text[i] = ((const char *)m->data)[m->bytes - 1 - i];
        m->answer = text;
        m->answer_bytes = m->bytes;
        return 0;
    case LET_IN:
        m->reply[0] = (uint64_t)(uintptr_t)km_address(object);
        return km_admit(object, m->process, KM_READ | KM_WRITE);
    case PUT_OUT: return km_dismiss(object, m->process);
    case GONE: m->reply[0] = (uint64_t)gone_count; return 0;
    default: return -ENOSYS;
    }
}

static void gone(uint64_t process) { gone_count += process != 0; }

static int serve_protocol(void)
{
    static const struct km_protocol protocol = {.message = message, .gone = gone};
    static const struct km_ops ops = {0};
    int e = km_protocol("own protocol", &protocol);
    if (!e) e = km_create("memory", 4, KM_READ | KM_WRITE, &ops, NULL, &object);
    return e ? 1 : -km_serve(1);
}

static long say(struct kd_message *m)
{
    long port = kd_call3(KD_NAME_FIND, (long)"own protocol", 0, 0);
    long r = port < 0 ? port : kd_call3(KD_PORT_CALL, port, (long)m, 0);
    if (port >= 0) kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return r;
}

static int client(void)
{
    struct kd_message m = {.kind = LET_IN, .handle = -1};
    if (say(&m)) return 2;
    uint64_t *word = (uint64_t *)(uintptr_t)m.word[0];
    return word[1]++ == 0 ? 0 : 3;
}

static void test_protocol(const char *self)
{
    struct kd_space_info info;
    char text[6] = "abcde";
    struct kd_message m = {.kind = REVERSE, .handle = -1, .word = {41}, .data = text,
                           .data_bytes = 5, .buffer = text, .buffer_bytes = 5};
    int pid = child_start(self, "protocol", ""), words = 0;
    for (long r = -ENOENT; r == -ENOENT; sched_yield()) r = say(&m);
    tap_ok(m.word[0] == 42 && strcmp(text, "edcba") == 0, "a message and its answer");
    m = (struct kd_message){.kind = 99, .handle = -1};
    is(say(&m), -ENOSYS, "an error is an answer");
    is(child_run(self, "client", ""), 0, "a process is let in");
    for (m.word[0] = 0; m.word[0] != 1; sched_yield()) {
        m = (struct kd_message){.kind = GONE, .handle = -1};
        if (say(&m)) break;
    }
    is((long)m.word[0], 1, "its end is heard");
    m = (struct kd_message){.kind = LET_IN, .handle = -1};
    is(say(&m), 0, "another one");
    words = (int)((uint64_t *)(uintptr_t)m.word[0])[1];
    uint64_t at = m.word[0];
    is(words, 1, "sees the same memory");
    m = (struct kd_message){.kind = PUT_OUT, .handle = -1};
    tap_ok(!say(&m) && kd_call3(KD_CONTAINER_INFO, (long)at, (long)&info, 0) == -ENOENT,
           "and is put out");
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    (void)child_wait(pid);
}

int main(int argc, char **argv)
{
    if (argc > 1) return argv[1][0] == 'p' ? serve_protocol() : client();
    tap_plan(21);
    test_store();
    test_protocol(argv[0]);
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
