/*
 * sites-split.c - for sites-split.sh: a B+-tree of another site, and what is said for it.
 *
 *     sites-split NAME make=N      the tree, with so many keys
 *     sites-split NAME count       how much is said to its home for look-ups, changes and objects
 *     sites-split NAME end=N       gives key 0 this value
 *     sites-split NAME await=N     until it has
 */
#include <errno.h>
#include <katydid/call.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <structures/tree.h>
#include <time.h>

enum { COUNTS = 0x1000, GET = 0, COMMIT = 4, ASK = 6 };  /* of remote, by the port "SITE/store" */
struct key { uint64_t number; };
struct value { uint64_t value, more[6]; };
static int order(const struct key *a, const struct key *b)
{
    return (a->number > b->number) - (a->number < b->number);
}
PS_TREE(numbers, struct key, struct value, order);
struct root { struct numbers_head head; uint64_t keys; };

static const char *name;
static ps_container *c;
struct work { uint64_t key, to, found; };

static int fill(void *number)
{
    struct root *root = ps_root(c);
    if (!root) return -errno;
    struct numbers tree = {.head = &root->head, .memory = ps_in(c)};
    int error = root->keys ? 0 : numbers_set_up(&tree);
    PS_ACCESS(numbers_keyed, access, &tree, PS_CHANGE);
    for (uint64_t end = *(uint64_t *)number; !error && root->keys < end; root->keys++)
        error = numbers_insert(&access, &(struct key){root->keys},
                               &(struct value){.value = root->keys});
    return error;
}

static int look(void *work)
{
    struct work *w = work;
    struct root *root = ps_root(c);
    if (!root) return -errno;
    struct numbers tree = {.head = &root->head, .memory = ps_in(c)};
    PS_ACCESS(numbers_keyed, access, &tree, PS_LOOK);
    const struct value *v = numbers_find(&access, &(struct key){w->key});
    if (!v) return -errno;
    w->found = v->value;
    return 0;
}

static int change(void *work)
{
    struct work *w = work;
    struct root *root = ps_root(c);
    if (!root) return -errno;
    struct numbers tree = {.head = &root->head, .memory = ps_in(c)};
    PS_ACCESS(numbers_keyed, access, &tree, PS_CHANGE);
    struct value *v = numbers_change(&access, &(struct key){w->key});
    if (!v) return -errno;
    v->value = w->to;
    return 0;
}

static void told(const char *what)
{
    static uint64_t before[KD_WORDS];
    char store[KD_NAME_MAX];
    snprintf(store, sizeof store, "%.*s/store", (int)strcspn(name, ":"), name);
    struct kd_message m = {.kind = COUNTS, .handle = -1};
    long port = kd_call3(KD_NAME_FIND, (long)store, 0, 0);
    if (port < 0 || kd_call3(KD_PORT_CALL, port, (long)&m, 0) < 0) return;
    printf("%s: %llu GET, %llu COMMIT, %llu ASK\n", what,
           (unsigned long long)(m.word[GET] - before[GET]),
           (unsigned long long)(m.word[COMMIT] - before[COMMIT]),
           (unsigned long long)(m.word[ASK] - before[ASK]));
    memcpy(before, m.word, sizeof before);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

static int object(void *unused)
{
    (void)unused;
    return ps_new(c, struct value, NULL) ? 0 : -errno;
}

static int count(void)
{
    struct work w = {.key = 12345};
    int error = ps_transaction(look, &w);
    printf("found %llu\n", (unsigned long long)w.found);
    told("opened, and first look-up");
    for (int i = 0; !error && i < 100; i++) error = ps_transaction(look, &w);
    told("the same 100 times");
    w.key = 12600;
    if (!error) error = ps_transaction(look, &w);
    told("another leaf");
    w.to = 77;
    if (!error) error = ps_transaction(change, &w);
    told("first change of it");
    for (w.to = 78; !error && w.to < 88; w.to++) error = ps_transaction(change, &w);
    told("ten more");
    if (!error) error = ps_transaction(object, NULL);
    told("an object");
    for (int i = 0; i < 10 && !error; i++) error = ps_transaction(object, NULL);
    told("ten more objects");
    return error;
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    name = argv[1];
    int makes = !strncmp(argv[2], "make=", 5), error = 0;
    uint64_t number = strtoull(strcspn(argv[2], "=") + 1 + argv[2], NULL, 10);
    struct work w = {.key = 0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    do
        c = ps_open(name, makes ? PS_CREATE | PS_WRITE : PS_WRITE, PS_LAYOUT(struct root, 1));
    while (!c && (errno == ENOENT || errno == EACCES || errno == ENOTCONN) &&
           nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL) == 0);
    if (!c) error = -errno;
    else if (makes) for (uint64_t at = 1000; !error && at <= number; at += 1000)
        error = ps_transaction(fill, &at);
    else if (!strcmp(argv[2], "count")) error = count();
    else if (!strncmp(argv[2], "end=", 4))
        error = ps_transaction(change, &(struct work){.key = 0, .to = number});
    else while (!(error = ps_transaction(look, &w)) && w.found != number)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    if (error) printf("%s %s: %s (%d)\n", name, argv[2], ps_strerror(error), error);
    return error != 0;
}
