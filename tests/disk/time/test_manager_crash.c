/*
 * test_manager_crash.c - one to eight clients of the store manager itself, interleaved by a seed,
 * and every crash state of what reaches the disk.
 *
 * Method: the manager's files run as coroutines (turns/sim.h) over a kernel of arrays and a
 * recording disk, on which requests take a time that the seed chooses: groups are written while
 * others are flushed, pages go home beside them. Each client commits changes of a few pages that no
 * other client is changing; how they are told depends on the life: by each encoder in turn. What
 * was in which commit, and what was acknowledged, is noted here; csn and order are those that the
 * manager published. Then the crash states of the record are enumerated and compared with the
 * contents after some commit from the last acknowledged to the last submitted.
 *
 * In some lives most commits are stacked: managers that stand on this one have a part of a client's
 * changes in views of their own, and all of it is one commit (kernel/store/stack.md).
 *
 * In some lives most commits are lazy. Then only those count as acknowledged that were there when a
 * strict one, or a flush that a client asked for, was answered.
 */
#include "crew.h"
#include "enumerate.h"
#include "turns/waits.h"
#include "world_parts.h"

#include <sys/wait.h>
#include <unistd.h>

enum { DISK_BYTES = 2 << 20, LOG_BYTES = 128 << 10, CLIENTS_MAX = 8, COMMITS_MAX = 160, NAME = 5 };
enum tally { STATES, SECOND, ASKED, COMMITS, GROUPS, SHARED, CHECKPOINTS, LIVES, LAZY, FLUSHES,
             STACKED };

static struct device disk;
static struct world world;                          /* digests of what was committed */
static uint64_t random_state;
static bool over;

#define WHOLE 20u               /* in the long tier, times TIMES: of so many lives every state */
#define CHECK(e) ((e) ? (void)0 : crew_fail("%s, line %d; log: %s", #e, __LINE__, log_line))

static int64_t some(int64_t limit) { return (int64_t)random_below(&random_state, (uint64_t)limit); }

/* ---- the disk: one request after the other; reads cost nothing ---- */

static int64_t disk_free_at, request_us, flush_us;

static void disk_serve(int64_t us)
{
    disk_free_at = (disk_free_at > sim_us ? disk_free_at : sim_us) + 1 + some(us);
    sim_sleep(disk_free_at - sim_us);
}

/* ---- what was committed, in the order of the log ---- */

static struct { uint64_t view, token, first, count, value, csn; } txn[COMMITS_MAX];
static uint64_t txn_count, txn_acked;
static uint64_t txn_safe;                           /* so many must be there after a crash */
static bool lazies, stacks;

/* The pages of a view and of its helpers lie side by side. */
static uint64_t pages_with(uint64_t i, uint64_t *first)
{
    uint64_t n = view[i].count;
    *first = view[i].first;
    helpers_each(h, &view[i]) n += view[h].count;
    return n;
}

/* One that found no room in a group is the first of the next. */
static void txn_note(uint64_t i)
{
    for (uint64_t k = txn_acked; k < txn_count; k++)
        if (txn[k].view == i && txn[k].token == view[i].token) {
            CHECK(k == txn_count - 1);
            return;
        }
    CHECK(txn_count < COMMITS_MAX);
    txn[txn_count].view = i;
    txn[txn_count].token = view[i].token;
    txn[txn_count].count = pages_with(i, &txn[txn_count].first);
    txn[txn_count++].value = view[i].value;
}

static long publish_noted(const struct kd_publish *p, long count)
{
    for (long k = 0; k < count; k++, txn_acked++) {
        uint64_t first;
        if (pages_with(p[k].view, &first) == 0) return kernel_publish(p, count);
        CHECK(txn_acked < txn_count && txn[txn_acked].view == p[k].view &&
              txn[txn_acked].token == p[k].token);
        txn[txn_acked].csn = p[k].csn;
        if (!view[p[k].view].lazy) txn_safe = txn_acked + 1;
    }
    crew_add(GROUPS, 1);
    crew_add(SHARED, count > 1);
    device_mark(&disk, txn_safe, txn_count);
    return kernel_publish(p, count);
}

static void digests_make(void)
{
    struct model model = { .containers[0] = { .object = 1, .name = NAME, .segments = 1 } };
    static uint64_t now[WORLD_PAGES][512], csn[WORLD_PAGES];
    uint64_t container = model_digest(&model);
    for (uint64_t k = 0; k <= txn_count; k++) {
        world.digests[k] = container;
        for (uint32_t p = 0; p < WORLD_PAGES; p++) {
            if (k && p - txn[k - 1].first < txn[k - 1].count) {
                now[p][WORD_A] = now[p][WORD_B] = txn[k - 1].value;
                csn[p] = txn[k - 1].csn;
            }
            if (csn[p])
                world.digests[k] += page_digest(1, p, (uint8_t *)now[p], csn[p]);
        }
    }
}

/* ---- the kernel ---- */

static uint32_t homes[DEVICE_OPEN_MAX], home_count;

int home_write(uint64_t offset, const void *bytes)
{
    homes[home_count++] = device_write_begin(&disk, offset, bytes, 4096);
    return 0;
}

/* Their time goes by while all are in flight. */
static long homes_write(struct kd_page_io *io, long count)
{
    uint32_t mine[DEVICE_OPEN_MAX];
    if (lazies) sim_sleep(some(request_us)); /* commits are published meanwhile */
    home_count = 0;
    long r = kernel_homes(io, count);
    uint32_t n = home_count;
    memcpy(mine, homes, sizeof(mine));
    disk_serve(request_us * count);
    while (n) device_write_end(&disk, mine[--n]);
    return r;
}

static long block_write(uint64_t offset, const void *bytes, uint64_t count)
{
    device_mark(&disk, txn_safe, txn_count);
    uint32_t issue = device_write_begin(&disk, offset, bytes, count);
    disk_serve(request_us);
    device_write_end(&disk, issue);
    return 0;
}

static long block_flush(void)
{
    uint32_t issue = device_flush_begin(&disk);
    disk_serve(flush_us);
    device_flush_end(&disk, issue);
    return 0;
}

static long diff_noted(struct kd_diff *d)
{
    uint64_t first, transaction = d->view % CLIENTS_MAX;
    long r = kernel_diff(d);
    CHECK(d->token == view[transaction].token);
    if (r == 0 && d->cursor == ~0ull && pages_with(transaction, &first)) txn_note(transaction);
    return r;
}

long kd_system(long number, long a, long b, long c, long d)
{
    switch (number) {
    case KD_BLOCK_OPEN:
        if (strchr((const char *)a, '.')) return -ENODEV; /* it is the only one of its store */
        *(struct kd_block_info *)b = (struct kd_block_info){ DISK_BYTES, 512, 0 };
        return 1;
    case KD_BLOCK_READ: memcpy((void *)c, disk.image + b, (size_t)d); return 0;
    case KD_BLOCK_WRITE: return block_write((uint64_t)b, (void *)c, (uint64_t)d);
    case KD_BLOCK_FLUSH: return block_flush();
    case KD_BLOCK_WRITE_PAGES: return homes_write((void *)b, c);
    case KD_TXN_DIFF: return diff_noted((void *)a);
    case KD_TXN_PUBLISH: return publish_noted((void *)a, b);
    default: return sim_call(number, a, b, c, d);
    }
}

/* ---- clients ---- */

static bool taken[WORLD_PAGES];  /* a client is changing it: the kernel's locks */
static unsigned clients, clients_left, commits_each;

/* A run of up to three pages that nobody is changing; 0: there is none. */
static uint64_t pages_take(uint64_t *first)
{
    uint64_t count = 0, most = 1 + (uint64_t)some(3), start = (uint64_t)some(WORLD_PAGES);
    *first = start;
    while (taken[*first])
        if ((*first = (*first + 1) % WORLD_PAGES) == start) return 0;
    while (count < most && *first + count < WORLD_PAGES && !taken[*first + count])
        taken[*first + count++] = true;
    return count;
}

/* Some of these pages become a helper's: view i, and CLIENTS_MAX more for each. */
static void share(unsigned i, uint64_t first, uint64_t count)
{
    uint64_t mine = (uint64_t)some((int64_t)count + 1);
    view[i].count = mine;
    for (unsigned h = i + CLIENTS_MAX; mine < count; h += CLIENTS_MAX) {
        uint64_t n = 1 + (uint64_t)some((int64_t)(count - mine));
        view[h] = (struct view){.first = first + mine, .count = n, .value = view[i].value};
        view[i].helpers |= 1ull << h;
        mine += n;
    }
    crew_add(STACKED, view[i].helpers != 0);
}

static void commit(unsigned i, uint64_t first, uint64_t count, uint64_t value, uint32_t lazy)
{
    view[i] = (struct view){.token = view[i].token + 1, .first = first,
                            .count = count, .value = value, .lazy = lazy};
    if (stacks && count) share(i, first, count);
    view[i].queued = true;
    sim_wake(&view[0].queued, true);
    while (!view[i].answered) sim_wait(view, SIM_NEVER);
    CHECK(view[i].answer == 0);
}

/* Half of the commits, and more, are lazy, with one bound or another. */
static uint32_t laziness(void)
{
    int64_t kind = lazies ? some(6) : 0;
    return kind == 0 ? 0 : kind < 4 ? STORE_LAZY : (uint32_t)(1 + some(5));
}

/* What was published before is durable after a flush, or when a strict commit that changed nothing
 * is answered. */
static void make_safe(unsigned i)
{
    uint64_t before = txn_acked;
    if (some(2)) {
        commit(i, 0, 0, 0, 0);
    } else {
        server_lock();
        CHECK(group_flush() == 0);
        server_unlock();
    }
    if (txn_safe < before) txn_safe = before;
    device_mark(&disk, txn_safe, txn_count);
    crew_add(FLUSHES, 1);
}

static void *client_main(void *number)
{
    unsigned i = (unsigned)(uintptr_t)number;
    for (unsigned n = 1; n <= commits_each; n++) {
        uint64_t first, count;
        while (!(count = pages_take(&first))) sim_sleep(1 + some(flush_us));
        uint32_t lazy = laziness();
        commit(i, first, count, (n * 100 + i + 1) * 0x0101010101010101, lazy);
        crew_add(LAZY, lazy != 0);
        while (count) taken[first + --count] = false;
        if (lazies && some(4) == 0) make_safe(i);
        sim_sleep(some(2 * flush_us));
    }
    if (--clients_left == 0) {
        sim_sleep(some(2) ? 1 : 300000);            /* and perhaps an idle group */
        over = true;
    }
    return NULL;
}

/* Beside those that the log wants. */
static void *checkpoints_main(void *unused)
{
    (void)unused;
    for (;;) {
        sim_sleep(1 + some(20 * flush_us));
        server_lock();
        CHECK(checkpoint_wait() == 0);
        server_unlock();
        crew_add(CHECKPOINTS, 1);
    }
    return NULL;
}

static void *start_main(void *base)
{
    struct wire_open how = {.flags = PS_CREATE | PS_WRITE};
    struct wire_opened out;
    name_make(NAME, how.name);
    options.log_bytes = LOG_BYTES;
    options.checkpoint_ms = 0;
    CHECK(manager_start());
    CHECK(container_open(CLIENT, &how, &out) == 0 && out.container == 1);
    server_lock();
    server.containers[1]->form[WIRE_FORM_ENCODER] = (uint32_t)encoder;
    CHECK(checkpoint_wait() == 0);
    server_unlock();
    memcpy(((struct device *)base)->image, disk.image, DISK_BYTES);
    device_record(&disk, true);
    device_mark(&disk, 0, 0);
    for (uintptr_t i = 0; i < clients; i++) sim_start(client_main, (void *)i);
    sim_start(checkpoints_main, NULL);
    return NULL;
}

/* ---- a life, in a process of its own: the manager's variables are as at its start ---- */

static void life(uint64_t seed)
{
    static struct device base;
    struct enumerate_result result = { .states = 0 };
    struct enumerate_options how = { .tear = true, .garble = true, .depth = 1, .second_odds = 100,
        .random_subsets = 3, .states_max = seed <= WHOLE * crew_times() ? UINT64_MAX : 4000 };
    random_state = seed;
    clients = clients_left = 1 + (unsigned)(seed - 1) % CLIENTS_MAX;
    encoder = (int)((seed - 1) / CLIENTS_MAX % STORE_ENCODER_COUNT);
    commits_each = (crew_long() ? 80 : 40) / clients;
    request_us = 10 << some(6);
    flush_us = 20 << some(8);
    device_open(&disk, DISK_BYTES);
    device_open(&base, DISK_BYTES);
    sim_start(start_main, &base);
    CHECK(sim_run(&over));
    disk.recording = false;
    CHECK(txn_acked == txn_count && txn_count == commits_each * clients);
    digests_make();
    if (lazies && how.states_max < UINT64_MAX)      /* a part of the life, anywhere */
        how.from_event = (uint32_t)some(disk.event_count * 7 / 8);
    enumerate(&world, disk.events, disk.event_count, &base, &how, seed, &result);
    if (result.failed)
        crew_fail("%u clients: %s: %s", clients, result.method, result.text);
    crew_add(STATES, result.states);
    crew_add(SECOND, result.second_states);
    crew_add(ASKED, result.kcheck_states);
    crew_add(COMMITS, txn_count);
    crew_add(LIVES, 1);
}

static void life_in_child(uint64_t seed)
{
    int status;
    crew_at("life", seed);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(crew_long() ? 3600 : 100);
        life(seed);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || WIFSIGNALED(status))
        crew_fail("the manager was ended by signal %d", pid < 0 ? 0 : WTERMSIG(status));
    if (WEXITSTATUS(status))
        _exit(1);                                   /* it has said why */
}

static void print_sums(uint64_t lives)
{
    printf("# %llu lives of 1 to 8 clients, %llu commits in %llu groups (%llu of several clients), "
           "%llu "
           "checkpoints; %llu crash states, %llu after a second crash, %llu asked of kcheck\n",
           (unsigned long long)lives, (unsigned long long)crew_sum(COMMITS),
           (unsigned long long)crew_sum(GROUPS), (unsigned long long)crew_sum(SHARED),
           (unsigned long long)crew_sum(CHECKPOINTS), (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(SECOND), (unsigned long long)crew_sum(ASKED));
}

/* Aim: whatever clients meet in a group, and whatever lies between their writes and flushes, no
 * crash state loses, mixes up or invents a commit. */
static void interleaved_clients_survive_every_crash_state(void **state)
{
    (void)state;
    uint64_t lives = crew_count(32);
    assert_true(crew_run(__func__, lives, life_in_child));
    print_sums(lives);
    assert_true(crew_part() || (crew_sum(SHARED) > lives && crew_sum(CHECKPOINTS) > lives));
}

static void lazy_life(uint64_t seed)
{
    lazies = true;
    life_in_child(seed);
}

/* Aim: what a crash leaves of lazy commits is the first so many of all, with all those that a
 * strict commit or a flush was answered behind; no page at home is newer than the log. */
static void lazy_commits_leave_a_prefix(void **state)
{
    (void)state;
    uint64_t lives = crew_count(24);
    assert_true(crew_run(__func__, lives, lazy_life));
    print_sums(lives);
    printf("# %llu of these commits were lazy, %llu flushes were asked for\n",
           (unsigned long long)crew_sum(LAZY), (unsigned long long)crew_sum(FLUSHES));
    assert_true(crew_part() || (crew_sum(LAZY) > 10 * lives && crew_sum(FLUSHES) > lives));
}

static void stacked_life(uint64_t seed)
{
    stacks = true;
    lazies = seed % 3 == 0;
    life_in_child(seed);
}

/* Aim: what a client changed and what managers changed on its behalf are one commit: in no crash
 * state is a part of it there without the rest (SK9, SK19). */
static void stacked_commits_are_whole(void **state)
{
    (void)state;
    uint64_t lives = crew_count(24);
    assert_true(crew_run(__func__, lives, stacked_life));
    print_sums(lives);
    printf("# %llu of these commits had helpers\n", (unsigned long long)crew_sum(STACKED));
    assert_true(crew_part() || crew_sum(STACKED) > 10 * lives);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interleaved_clients_survive_every_crash_state),
        cmocka_unit_test(lazy_commits_leave_a_prefix),
        cmocka_unit_test(stacked_commits_are_whole),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
