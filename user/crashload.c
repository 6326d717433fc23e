/*
 * crashload.c - the load of scripts/crash: four processes change one container until the power goes.
 *
 *     crashload SEED COUNT          each process makes COUNT transactions, beginning where it was
 *     crashload work PROCESS SEED COUNT
 *     crashload check SEED [N ...]  all invariants, in one transaction; process i must have made
 *                                   N[i] transactions at least. Prints how many each made.
 *
 * A process prints `ack PROCESS NUMBER` when the commit of its transaction has returned, never
 * before, in one write. If the store manager dies, it waits for the next one, asks its counter
 * whether the transaction was `found` or `lost`, and goes on. What transaction NUMBER of a process
 * does follows from the seed alone: a transfer between two accounts, or a node that is put into the
 * shared list, or taken out of it.
 * So the counters of the processes say what all else must be:
 *
 *   C1  an account holds START and what the counted transfers brought; the sum never changes
 *   C2  the nodes of a process are those that its counted transactions left, with their bytes
 *   C3  the list is a ring with equal links both ways, and holds all these nodes and no other
 *   C4  the last transfer that an account remembers is one of the counted, and was about it
 *
 * scripts/crash checks the same from outside, by a model of its own.
 */
#include <katydid/call.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 4, ACCOUNTS = 16, SLOTS = 128, START = 1000, NODES_MAX = PROCESSES * SLOTS };
enum { RETRIES = 1000 };                 /* of 10 ms */

struct node {                            /* layout known to scripts/crash, as all these are */
    struct node *next, *prev;
    uint32_t process, number, bytes, slot;
    unsigned char text[];
};
struct account { int64_t amount; uint32_t process, number; char room[992]; }; /* four in a page */
struct process { uint64_t counter; struct node *node[SLOTS]; char room[2800]; };
struct load {
    uint64_t seed, ready;
    struct account *account[ACCOUNTS];
    struct process *process[PROCESSES];
    struct node ring;
};

static ps_container *c;
static uint64_t seed;

/* ---- what transaction NUMBER does ---- */

struct step {
    unsigned process, number;
    int transfer, abort_first;
    unsigned from, to, slot, bytes;
    int64_t amount;
};

static uint64_t mix(unsigned process, unsigned number)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + process * 0xbf58476d1ce4e5b9u + number * 0x94d049bb133111ebu;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static struct step step_of(unsigned process, unsigned number)
{
    uint64_t r = mix(process, number);
    struct step s = {.process = process, .number = number};
    s.transfer = (r & 7) < 4;
    s.from = r >> 8 & 15;
    s.slot = r >> 8 & (SLOTS - 1);
    s.to = r >> 16 & 15;
    s.amount = 1 + (int64_t)((r >> 24) % 100);
    s.bytes = (r >> 16 & 15) == 0 ? 3000 + (r >> 24) % 9000 : (r >> 24) % 600;
    s.abort_first = (r >> 56 & 15) == 0;
    return s;
}

static unsigned char text_of(unsigned process, unsigned number, unsigned at)
{
    return (unsigned char)(number * 7 + process * 31 + at);
}

/* ---- the transactions; each is a function for ps_transaction ---- */

static int set_up(void *unused)
{
    (void)unused;
    struct load *load = ps_root(c);
    if (!load)
        return -errno;
    if (load->ready)
        return load->seed == seed ? 0 : -EEXIST;
    for (int i = 0; i < ACCOUNTS; i++) {
        if (!(load->account[i] = ps_new(c, struct account, NULL)))
            return -errno;
        load->account[i]->amount = START;
    }
    for (int i = 0; i < PROCESSES; i++)
        if (!(load->process[i] = ps_new(c, struct process, NULL)))
            return -errno;
    load->ring.next = load->ring.prev = &load->ring;
    load->seed = seed;
    load->ready = 1;
    return 0;
}

static void transfer(struct load *load, const struct step *s)
{
    struct account *from = load->account[s->from], *to = load->account[s->to];
    from->amount -= s->amount;
    to->amount += s->amount;
    from->process = to->process = s->process;
    from->number = to->number = s->number;
}

static int node_insert(struct load *load, struct node **place, struct node *after,
                       const struct step *s)
{
    struct node *node = ps_alloc(c, sizeof(*node) + s->bytes, after);
    if (!node)
        return -errno;
    node->process = s->process;
    node->number = s->number;
    node->bytes = s->bytes;
    node->slot = s->slot;
    for (unsigned i = 0; i < s->bytes; i++)
        node->text[i] = text_of(s->process, s->number, i);
    after = after ? after : &load->ring;
    node->prev = after;
    node->next = after->next;
    node->next->prev = after->next = node;
    *place = node;
    return 0;
}

static int node_delete(struct node **place)
{
    struct node *node = *place;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    *place = NULL;
    return ps_free(node);
}

static int step_do(void *arg)
{
    const struct step *s = arg;
    struct load *load = ps_root(c);
    if (!load)
        return -errno;
    struct process *me = load->process[s->process];
    struct node **place = &me->node[s->slot];
    me->counter = s->number;
    int error = 0;
    if (s->transfer)
        transfer(load, s);
    else if (*place)
        error = node_delete(place);
    else
        error = node_insert(load, place, me->node[(s->slot + 1) % SLOTS], s);
    return error;
}

/* Does the same, and changes its mind: nothing of this may ever be seen. */
static int step_abort(void *arg)
{
    int error = step_do(arg);
    return error ? error : -ECANCELED;
}

static int counter_get(void *arg)
{
    uint64_t *counter = arg;
    struct load *load = ps_root(c);
    if (!load)
        return -errno;
    *counter = load->process[*counter]->counter;
    return 0;
}

/* ---- check ---- */

struct wanted {                          /* by the counters */
    uint64_t counter[PROCESSES];
    int64_t amount[ACCOUNTS];
    struct step node[PROCESSES][SLOTS];  /* number 0: no node there */
    int nodes;
};

static void wanted_count(struct wanted *w)
{
    for (int i = 0; i < ACCOUNTS; i++)
        w->amount[i] = START;
    for (unsigned p = 0; p < PROCESSES; p++) {
        for (unsigned n = 1; n <= w->counter[p]; n++) {
            struct step s = step_of(p, n), *node = &w->node[p][s.slot];
            if (s.transfer) {
                w->amount[s.from] -= s.amount;
                w->amount[s.to] += s.amount;
            } else if (node->number) {
                w->nodes--;
                node->number = 0;
            } else {
                w->nodes++;
                *node = s;
            }
        }
    }
}

static const char *node_wrong(const struct node *node, const struct step *s)
{
    if (node->process != s->process || node->number != s->number || node->bytes != s->bytes)
        return "a node is not the one that should be there (C2)";
    for (unsigned i = 0; i < node->bytes; i++)
        if (node->text[i] != text_of(s->process, s->number, i))
            return "the bytes of a node changed (C2)";
    return NULL;
}

static const char *account_wrong(const struct account *a, int index, const struct wanted *w)
{
    if (a->amount != w->amount[index])
        return "an account does not hold what the transfers left (C1)";
    if (!a->number)
        return NULL;
    if (a->process >= PROCESSES || a->number > w->counter[a->process])
        return "an account remembers a transfer that is not counted (C4)";
    struct step s = step_of(a->process, a->number);
    return s.transfer && ((int)s.from == index || (int)s.to == index)
               ? NULL : "an account remembers a transfer of others (C4)";
}

static const char *ring_wrong(struct load *load, const struct wanted *w)
{
    const struct node *at = &load->ring;
    for (int i = 0; i <= w->nodes; i++, at = at->next) {
        if (at->next->prev != at)
            return "the list's links differ (C3)";
        if (i > 0 && (at->process >= PROCESSES || at->slot >= SLOTS ||
                      load->process[at->process]->node[at->slot] != at))
            return "the list holds a node that nobody has (C3)";
    }
    return at == &load->ring ? NULL : "the list does not hold as many nodes as it should (C3)";
}

static const char *load_wrong(struct load *load, const struct wanted *w)
{
    const char *wrong = NULL;
    for (int i = 0; i < ACCOUNTS && !wrong; i++)
        wrong = account_wrong(load->account[i], i, w);
    for (int i = 0; i < NODES_MAX && !wrong; i++) {
        const struct step *s = &w->node[i / SLOTS][i % SLOTS];
        const struct node *node = load->process[i / SLOTS]->node[i % SLOTS];
        if (!node != !s->number)
            wrong = "a node is missing, or too many (C2)";
        else if (node)
            wrong = node_wrong(node, s);
    }
    return wrong ? wrong : ring_wrong(load, w);
}

struct check { struct wanted wanted; const char *wrong; };

static int check_all(void *arg)
{
    struct check *check = arg;
    struct load *load = ps_root(c);
    memset(check, 0, sizeof(*check));
    if (!load)
        return -errno;
    if (!load->ready)
        return 0;
    for (int i = 0; i < PROCESSES; i++)
        check->wanted.counter[i] = load->process[i]->counter;
    wanted_count(&check->wanted);
    check->wrong = load->seed == seed ? load_wrong(load, &check->wanted) : "it is of another seed";
    return 0;
}

/* ---- commands ---- */

static int failed(const char *what, int error)
{
    fprintf(stderr, "crashload: %s: %s\n", what, ps_strerror(error));
    return 1;
}

static int check(int count, char **least)
{
    static struct check all;
    int error = ps_transaction(check_all, &all);
    if (error)
        return failed("check", error);
    printf("counters");
    for (int i = 0; i < PROCESSES; i++) {
        printf(" %llu", (unsigned long long)all.wanted.counter[i]);
        if (i < count && all.wanted.counter[i] < strtoull(least[i], NULL, 10))
            all.wrong = "an acknowledged transaction is missing";
    }
    printf("\n%s\n", all.wrong ? all.wrong : "sound");
    return all.wrong != NULL;
}

static int say(const char *word, unsigned process, unsigned number)
{
    char line[48];
    int bytes = snprintf(line, sizeof(line), "%s %u %u\n", word, process, number);
    return write(1, line, (size_t)bytes) == bytes ? 0 : -EIO;
}

static int manager_gone(int error) { return error == -EOWNERDEAD || error == -ENOTCONN; }

/* How many transactions this process has made; waits for the store manager if it died. */
static int counter_wait(unsigned process, uint64_t *counter)
{
    int error = -ENOTCONN;
    for (int i = 0; i < RETRIES && manager_gone(error); i++) {
        *counter = process;
        error = ps_transaction(counter_get, counter);
        if (manager_gone(error))
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return error;
}

/* One transaction, exactly once: when the manager dies in a commit, only the counter can tell
 * whether that was before or after the point of commit. */
static int step_once(struct step *s)
{
    int error = s->abort_first ? ps_transaction(step_abort, s) : 0;
    if (!error || error == -ECANCELED)
        error = ps_transaction(step_do, s);
    while (manager_gone(error)) {
        uint64_t counter = 0;
        error = counter_wait(s->process, &counter);
        if (error || counter == s->number)
            return error ? error : say("found", s->process, s->number);
        error = say("lost", s->process, s->number);
        if (!error)
            error = ps_transaction(step_do, s);
    }
    return error;
}

static int work(unsigned process, unsigned count)
{
    uint64_t done = 0;
    int error = counter_wait(process, &done);
    for (unsigned i = 0; i < count && !error; i++) {
        struct step s = step_of(process, (unsigned)++done);
        error = step_once(&s);
        if (!error)
            error = say("ack", process, s.number);
    }
    return error ? failed("work", error) : 0;
}

static long worker_start(const char *process, const char *own_seed, const char *count)
{
    const char *argv[] = {"crashload", "work", process, own_seed, count, NULL};
    struct kd_process_create p = {.path = "/bin/crashload", .argv = argv, .fds = {-1, -1, -1}};
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (handle < 0)
        return handle;
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return p.pid;
}

static int work_all(const char *own_seed, const char *count)
{
    static const char *const names[PROCESSES] = {"0", "1", "2", "3"};
    long pid[PROCESSES];
    int wrong = 0;
    for (int i = 0; i < PROCESSES; i++)
        pid[i] = worker_start(names[i], own_seed, count);
    for (int i = 0; i < PROCESSES; i++) {
        int status = 1;
        if (pid[i] > 0)
            kd_call3(KD_PROCESS_WAIT, pid[i], (long)&status, 0);
        wrong |= status != 0;
    }
    puts(wrong ? "crashload: a process failed" : "crashload: all done");
    return wrong;
}

int main(int argc, char **argv)
{
    int working = argc == 5 && strcmp(argv[1], "work") == 0;
    int checking = argc >= 3 && strcmp(argv[1], "check") == 0;
    if (!working && !checking && argc != 3) {
        fprintf(stderr, "usage: crashload SEED COUNT | crashload check SEED [N ...]\n");
        return 2;
    }
    seed = strtoull(argv[working ? 3 : checking ? 2 : 1], NULL, 10);
    for (int i = 0; i < RETRIES && !c; i++) {
        c = ps_open("crash", PS_CREATE | PS_WRITE, PS_LAYOUT(struct load, 1));
        if (!c && !manager_gone(-errno))
            break;
        if (!c)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    if (!c)
        return failed("open", -errno);
    if (checking)
        return check(argc - 3, argv + 3);
    int error = ps_transaction(set_up, NULL);
    if (error)
        return failed("set-up", error);
    if (working)
        return work((unsigned)atoi(argv[2]) % PROCESSES, (unsigned)atoi(argv[4]));
    return work_all(argv[1], argv[2]);
}
