/*
 * pstore_lint.c - ps_lint names every pointer into volatile memory that a commit makes durable, and
 * nothing else.
 *
 * Method  each planted error is committed with standard error in a pipe; the line in it is compared
 *         with the one that this file expects, the place of the call included.
 */
#include "pstore_test.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

struct root { struct root *same, *other; long number; void *bad, *anything[60]; };
struct node { long key; struct node *next; char *text; };

static const struct ps_field root_fields[] = {
    PS_FIELD(struct root, same), PS_FIELD(struct root, other), PS_FIELD(struct root, bad), { 0 }
};
static const struct ps_field node_fields[] = { PS_FIELD(struct node, next),
                                               PS_FIELD(struct node, text),
                                               { 0 } };

enum { REGIONS = 6000 };

static ps_container *c, *elsewhere;
static long statics[4];
static struct node *node;

/* What the commits since the last call said; at most one line of it is kept. */
static int pipe_ends[2], said_lines;
static char said[8192];
static void listen_now(void)
{
    if (pipe(pipe_ends) != 0 || dup2(pipe_ends[1], 2) != 2)
        tap_ok(0, "standard error goes into a pipe");
    close(pipe_ends[1]);
}
static void hear(void)
{
    dup2(1, 2); /* the pipe's last writer is gone: it ends */
    size_t n = 0;
    for (ssize_t got;
         n < sizeof said - 1 && (got = read(pipe_ends[0], said + n, sizeof said - 1 - n)) > 0;)
        n += (size_t)got;
    said[n] = 0;
    close(pipe_ends[0]);
    said_lines = 0;
    for (const char *s = said; *s; s++)
        said_lines += *s == '\n';
}

static void said_only(const char *wanted, int line, const char *what)
{
    char place[128];
    hear();
    listen_now();
    snprintf(place, sizeof place, "commit at %s:%d\n", __FILE__, line);
    int good = said_lines == 1 && strstr(said, wanted) && strstr(said, place);
    if (!good)
        printf("# wanted: %s ... %s# said: %s\n", wanted, place, said);
    tap_ok(good, "%s", what);
}

static int put(void *pointer)
{
    struct root *r = ps_root(c);
    r->bad = pointer;
    return 0;
}
static int put_node(void *pointer)
{
    node = ps_new(c, struct node, NULL);
    node->key = 7;
    node->text = pointer;
    return 0;
}
static int put_named(void *pointer)
{
    void **words = ps_named(c, "words", 8 * sizeof *words);
    words[5] = pointer;
    return 0;
}
static int put_large(void *pointer)
{
    void **words = ps_alloc(c, 3 * KD_PAGE_BYTES, NULL);
    words[1000] = pointer;
    return 0;
}
static int clean(void *unused)
{
    (void)unused;
    struct root *r = ps_root(c);
    r->same = r;
    r->other = ps_root(elsewhere);
    r->number++;
    for (int i = 0; i < 60; i++)
        r->anything[i] = (void *)(uintptr_t)(i * 61);
    for (int i = 0; i < 300; i++) /* pages full of slots */
        if (!ps_alloc(c, 16, NULL))
            return -errno;
    return 0;
}
static int many(void *unused)
{
    struct root *r = ps_root(c);
    for (int i = 0; i < 60; i++)
        r->anything[i] = &unused;
    return 0;
}

/* The call beneath: two words in two pages of a large object. */
static int changes(void *unused)
{
    struct kd_changes first, second;
    char *p = ps_alloc(c, 2 * KD_PAGE_BYTES, NULL);
    (void)unused;
    p[8] = 1;
    p[KD_PAGE_BYTES] = 1;
    if (!p || kd_call3(KD_TXN_CHANGES, (long)p, -4096, 0) != -EFAULT)
        return -1;
    if (kd_call3(KD_TXN_CHANGES, (long)p, (long)&first, 0) != 0 || first.address != (uintptr_t)p ||
        kd_call3(KD_TXN_CHANGES, (long)p + 1, (long)&second, 0) != 0 ||
        second.address != (uintptr_t)p + KD_PAGE_BYTES)
        return -2;
    if (kd_call3(KD_TXN_CHANGES, (long)p + KD_PAGE_BYTES + 1, (long)&second, 0) != -ENOENT)
        return -3;
    return first.words[0] == 2 && second.words[0] == 1 && !first.words[7] && !second.words[7] ? 0
                                                                                              : -4;
}

static void *thread_puts_its_stack(void *unused)
{
    long local = 0;
    (void)unused;
    return (void *)(long)ps_transaction(put, &local);
}

static int child(void)
{
    long local = 0;
    c = ps_open("lint", PS_WRITE, PS_LAYOUT(struct root, 1));
    listen_now();
    int result = c ? ps_transaction(put, &local) : -errno;
    hear();
    return result != 0 ? 1 : said_lines != 1 ? 2 : !strstr(said, "(struct root, 24 bytes in)");
}

/* PS_LINT=1 in the environment of a child; what it wrote comes back by its exit status. */
static int environment_works(const char *self)
{
    char path[128];
    const char *name = strrchr(self, '/');
    const char *argv[] = {self, "child", NULL}, *envp[] = {"PS_LINT=1", NULL};
    struct kd_process_create p = {.path = path, .argv = argv, .envp = envp, .fds = {-1, -1, -1}};
    snprintf(path, sizeof path, "/bin/%s", name ? name + 1 : self);
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    return handle < 0 ? (int)handle : child_wait(p.pid);
}

static long committed;                  /* the sum of what transactions returned */

/* `local` lies on the stack, where no variable of the tests that follow lies: they store other
 * pointers. */
static void off_and_on(long *local)
{
    listen_now();
    is(ps_transaction(put, local), 0, "without ps_lint nothing is looked at ...");
    hear();
    is(said_lines, 0, "... and nothing said");
    listen_now();

    is(ps_lint(1), 0, "ps_lint was off");
    ps_describe("struct root", root_fields);
    ps_describe("struct node", node_fields);
    int result = ps_transaction(clean, NULL);
    hear();
    is(result == 0 ? said_lines : result, 0,
       "pointers into containers, numbers and slots are clean");
    listen_now();
}

/* Each kind of place that is not in a container. */
static void places(void)
{
    long local = 0, other = 0;
    committed += ps_transaction(put, &other); int line = __LINE__;
    said_only("container lint, offset 0x", line, "a pointer to the stack");
    committed += ps_transaction(put, &local); line = __LINE__;
    said_only("(struct root, bad, 24 bytes in): 0x", line, "with type and field");
    void *heap = malloc(64);
    committed += ps_transaction(put_node, heap); line = __LINE__;
    said_only("(struct node, text, 16 bytes in)", line, "the heap, in an object of ps_new");
    committed += ps_transaction(put_named, statics); line = __LINE__;
    said_only("(words, 40 bytes in)", line, "static data, in a named object");
    void *mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    committed += ps_transaction(put_large, mapped); line = __LINE__;
    said_only("is in volatile memory", line, "mapped memory, in a large object");
    committed += ps_transaction(put, (void *)(uintptr_t)put); line = __LINE__;
    said_only("is in the program", line, "a function");

}

/* The stack is the last of thousands: the map was cut off at 16 KiB, and nothing was said. */
static void above_many_mappings(void)
{
    long local = 0;
    int line;
    char *many_regions = mmap(NULL, REGIONS * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < REGIONS; i += 2)
        committed += mprotect(many_regions + i * 4096, 4096, PROT_READ);
    committed += ps_transaction(put, &local); line = __LINE__;
    said_only("is on the stack", line, "a pointer to the stack, above thousands of mappings");
    committed += munmap(many_regions, REGIONS * 4096);
}

static void other_thread(void)
{
    pthread_t t;
    void *thread_result = NULL;
    pthread_create(&t, NULL, thread_puts_its_stack, NULL);
    pthread_join(t, &thread_result);
    hear();
    tap_ok(said_lines == 1 && strstr(said, "is on the stack"), "a thread's own stack");
    listen_now();
}

static void explicit_form(void)
{
    long local = 0;
    int line;
    committed += ps_begin(NULL);
    committed += put(&local);
    committed += ps_commit(); line = __LINE__;
    said_only("is on the stack", line, "the explicit form: the line of ps_commit");
    committed += ps_transaction(clean, NULL);
    hear();
    is(said_lines, 0, "what an earlier commit stored is not told again");
    listen_now();
    committed += ps_transaction(many, NULL);
    hear();
    tap_ok(said_lines == 21 && strstr(said, "and 40 more"), "after 20 lines it only counts");
}

int main(int argc, char **argv)
{
    long local = 0;
    if (argc > 1)
        return child();
    tap_plan(20);
    c = ps_open("lint", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    elsewhere = ps_open("elsewhere", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c && elsewhere ? 0 : -errno, 0, "two containers");
    off_and_on(&local);
    places();
    above_many_mappings();
    other_thread();
    explicit_form();
    is(committed, 0, "and all these were committed");
    is(ps_transaction(changes, NULL), 0, "the kernel tells pages and words that changed");
    struct kd_changes none;
    is(kd_call3(KD_TXN_CHANGES, 0, (long)&none, 0), -ENOENT,
       "outside a transaction there are none");
    is(environment_works(argv[0]), 0, "PS_LINT=1 in the environment turns it on");
    return tap_end();
}
