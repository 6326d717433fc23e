/*
 * test_copy.c - the store manager as one of two copies (user/store/copy.c), with threads, over a
 * link that the test plays: the other copy and the witness are its words.
 *
 * Each case is a life of the manager, in a child. It becomes home, a spare joins by the words of
 * one, and the case looks what a commit waits for, what is sent when, and when the manager ends.
 * Waits: for the times of leases.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "device.h"
#include "internal.h"
#include "store_made.h"

#include "user/sites/frame.c"
#include "user/sites/agent_types.c"
#include "user/sites/role_wire.c"
#include "user/store/role.c"
#include "user/store/role_witness.c"
#define asked copy_asked                /* names that two of the files have */
#define group copy_group
#include "user/store/copy.c"
#include "user/store/recast.c"
#include "user/store/copy_recast.c"
#undef asked
#undef group
#include "user/store/copy_link.c"
#include "user/store/options.h"

enum { LEASE_MS = 800, GRACE_MS = 2 * LEASE_MS, SESSION = 100, PORT = 7, FRAMES = 64,
       FOUND = 0, WRONG = 9, STEP_US = 10000, LIFE_S = 200 };

/* ---- the manager's other parts ---- */

struct server server = {.name = "store", .lock = PTHREAD_MUTEX_INITIALIZER};
struct options options = {.pair = {"a", "b", "w"}};

static uint64_t real_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void *memory_alloc(void *unused, size_t bytes) { return (void)unused, malloc(bytes); }
static void memory_free(void *unused, void *at, size_t bytes)
{
    (void)unused;
    (void)bytes;
    free(at);
}
const struct disk_memory disk_memory = {.alloc = memory_alloc, .free = memory_free};

/* The time of a life, which a thread counts. However long a host gives the process no time, it goes
 * on by one step, so no lease ends by that. Two looks never tell the same. */
static _Atomic uint64_t time_us = 1;
static void *time_main(void *unused)
{
    for (uint64_t last = real_us(), now;; last = now) {
        pause_ms(1);
        now = real_us();
        time_us += now - last < STEP_US ? now - last : STEP_US;
    }
    return unused;
}

static uint64_t microseconds(void *unused) { return (void)unused, ++time_us; }
const struct disk_clock disk_clock = {.microseconds = microseconds};

void say(const char *format, ...) { (void)format; }
void report_say(const struct store_report *report) { (void)report; }
int copy_backup(const struct kd_message *m) { return (void)m, -EAGAIN; }
int disk_format(const struct disk_io *io, uint64_t bytes) { return (void)io, (void)bytes, -EIO; }

bool thread_make_with(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, body, argument) == 0;
}
bool thread_make(void *(*body)(void *)) { return thread_make_with(body, NULL); }

int server_wait(pthread_cond_t *condition, uint64_t us)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(condition, &server.lock, &until);
}

static void pass_ms(long ms)
{
    for (uint64_t until = time_us + (uint64_t)ms * 1000; time_us < until;) pause_ms(1);
}

/* ---- link: what is on the way, of each of the two sessions; under `wire` ---- */

static pthread_mutex_t wire = PTHREAD_MUTEX_INITIALIZER;
static struct way {
    bool up, stuck, closed;             /* stuck: a call that sends does not return */
    unsigned opened;                    /* how often */
    struct { uint8_t *at; size_t bytes; } in[FRAMES];
    unsigned first, last;
} ways[COPY_SITES];
static struct role_record record = {1, 1, 0};
static bool witness_up = true, spare_answers, beats_only;
static unsigned came[ROLE_KINDS];
static pthread_t brought;               /* the thread that brought the last of them */
static struct role_message last_came;   /* of a GROUP: without its bytes */

static void word_in(int from, const struct role_message *m)
{
    struct way *w = &ways[from];
    size_t room = 1024 + m->bytes;
    uint8_t *at = malloc(room);
    w->in[w->last % FRAMES].bytes = role_put(m, at, room);
    w->in[w->last++ % FRAMES].at = at;
}

/* What the two others say to what they hear; with `wire`. */
static void heard_there(int to, const struct role_message *m)
{
    struct role_message answer = {.number = m->number, .stamp = m->stamp, .term = m->term};
    if (to == ROLE_TO_WITNESS) {
        role_witness(&record, m, &answer);
        if (witness_up) word_in(to, &answer);
        return;
    }
    came[m->kind]++;
    last_came = *m;
    if (m->kind == ROLE_CATCH_UP) answer.lsn = m->lsn;
    if (m->kind == ROLE_GROUP)
        answer.lsn = le64_get(((const struct group_disk *)m->group)->lsn) + m->bytes;
    answer.kind = m->kind == ROLE_BEAT ? ROLE_HEARD : ROLE_HAVE;
    bool says = m->kind == ROLE_CATCH_UP || m->kind == ROLE_BEAT ||
                (m->kind == ROLE_GROUP && !beats_only);
    if (spare_answers && says) word_in(to, &answer);
}

int link_copy(int link, const char *site, struct link_session *s)
{
    int i = site[0] == 'w';
    (void)link;
    (void)s;
    while (!__atomic_load_n(&ways[i].up, __ATOMIC_SEQ_CST)) pause_ms(1);
    __atomic_fetch_add(&ways[i].opened, 1, __ATOMIC_SEQ_CST);
    return SESSION + i;
}

int link_send(int session, const void *at, size_t bytes)
{
    static uint8_t group[ROLE_GROUP_MOST];
    struct role_message m;
    struct frame f;
    int to = session - SESSION;
    while (__atomic_load_n(&ways[to].stuck, __ATOMIC_RELAXED)) pause_ms(1);
    if (!frame_head(&f, at, bytes) || !role_get(&m, &f, at, group)) _exit(WRONG);
    pthread_mutex_lock(&wire);
    brought = pthread_self();
    heard_there(to, &m);
    pthread_mutex_unlock(&wire);
    return 0;
}

int link_receive(int session, struct link_inbox *inbox, struct frame *f, const uint8_t **at)
{
    struct way *w = &ways[session - SESSION];
    for (;; pause_ms(1)) {
        pthread_mutex_lock(&wire);
        bool any = w->first != w->last, over = w->closed;
        if (any) {
            memcpy(inbox->memory, w->in[w->first % FRAMES].at, w->in[w->first % FRAMES].bytes);
            *at = inbox->memory;
            frame_head(f, *at, w->in[w->first % FRAMES].bytes);
            free(w->in[w->first++ % FRAMES].at);
        }
        pthread_mutex_unlock(&wire);
        if (any || over) return any ? 0 : -ECONNRESET;
    }
}

int link_close(int session)
{
    struct way *w = &ways[session - SESSION];
    __atomic_store_n(&w->up, false, __ATOMIC_SEQ_CST);
    __atomic_store_n(&w->closed, false, __ATOMIC_SEQ_CST);
    return 0;
}

/* ---- the kernel ---- */

static uint32_t asks;                   /* a COPY_ request, that the port is to hear of; 0 */
static int asks_handle, answered = 1;
static int link_pid = 1, home_told;     /* how often link was told of this home */

long kd_system(long number, long a, long b, long c, long d)
{
    struct kd_message *m = (struct kd_message *)b;
    (void)c;
    (void)d;
    switch (number) {
    case KD_PORT_CREATE: return PORT;
    case KD_PORT_CALL:
        if (m->kind == LINK_CLOSE) ways[a - SESSION].closed = true;
        if (m->kind == LINK_HOME) __atomic_fetch_add(&home_told, 1, __ATOMIC_SEQ_CST);
        return 0;
    case KD_PORT_OWNER: return link_pid;
    case KD_PORT_RECEIVE:
        while (!__atomic_load_n(&asks, __ATOMIC_SEQ_CST)) pause_ms(1);
        *m = (struct kd_message){.kind = asks, .token = 1, .handle = asks_handle};
        asks = 0;
        return 0;
    case KD_PORT_REPLY: answered = m->status; return 0;
    case KD_HANDLE_COPY: return a;
    default: return 0;
    }
}

static int ask_port(uint32_t kind, int handle)
{
    answered = 1;
    asks_handle = handle;
    __atomic_store_n(&asks, kind, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&answered, __ATOMIC_SEQ_CST) == 1) pause_ms(1);
    return answered;
}

/* ---- a life ---- */

static struct device device;
static struct disk_io io;
static uint64_t object;

static void must(bool true_it_is)
{
    if (!true_it_is) _exit(WRONG);
}

static bool comes(const bool *what)
{
    for (int i = 0; i < 3000 && !__atomic_load_n(what, __ATOMIC_RELAXED); i++) pause_ms(1);
    return *what;
}

static void disk_make(void)
{
    device_open(&device, 32 << 20);
    io = device_io(&device);
    struct store *store = store_made(&io, 8 << 20, &object);
    must(store && store_close(store) == 0);
}

/* It is home, and alone. */
static void home_begins(void)
{
    struct store_open_options how = {.group_bytes = 1 << 20};
    disk_make();
    ways[ROLE_TO_WITNESS].up = true;
    must(copy_run(&io, &how, GRACE_MS) && role.is == ROLE_HOME && server.store);
    copy_serves();
}

/* A spare joins, and is named. */
static void spare_joins(void)
{
    struct role_message m = {.kind = ROLE_JOIN, .number = 77};
    struct store_stats stats;
    server_lock();
    store_stats(server.store, &stats);
    m.lsn = store_log_applied(server.store);
    store_epochs_tell(server.store, &m.epochs);
    server_unlock();
    memcpy(m.uuid, stats.uuid, sizeof m.uuid);
    m.disk_bytes = stats.disk_bytes;
    m.log_bytes = stats.log_bytes;
    spare_answers = true;
    ways[ROLE_TO_OTHER].up = true;
    for (int i = 0; i < 3000 && !role.reached; i++) pause_ms(1);
    pthread_mutex_lock(&wire);
    word_in(ROLE_TO_OTHER, &m);
    pthread_mutex_unlock(&wire);
    must(comes(&role.named) && record.mate == 2);
}

static struct store_group *sealed(uint32_t pages)
{
    static uint8_t bytes[STORE_PAGE_BYTES];
    struct store_group *group;
    uint32_t position;
    server_lock();
    must(store_group_begin(server.store, &group) == 0);
    store_txn_begin(group, 2);
    for (uint32_t i = 0; i < pages; i++) {
        for (uint32_t k = 0; k < sizeof bytes; k++) bytes[k] = (uint8_t)rand();
        must(store_txn_page(group, object, i, bytes) == 0);
    }
    must(store_txn_end(group, &position) == 0 && store_group_seal(group) == 0);
    copy_sealed(group);
    server_unlock();
    return group;
}

static bool landed;
static struct store_group *left;        /* nobody waits for it */

static store_lsn_t end_of(const struct store_group *group)
{
    size_t bytes;
    store_group_sealed_bytes(group, &bytes);
    return store_group_csn(group, 0) + bytes;
}

static void applies(struct store_group *group)
{
    must(store_group_apply(group) == 0);
    __atomic_store_n(&landed, true, __ATOMIC_SEQ_CST);
}

static void *lands(void *of)
{
    server_lock();
    copy_flushed(end_of(of));
    applies(of);
    server_unlock();
    return NULL;
}

void group_copied(void)
{
    if (!left || !copy_has(end_of(left))) return;
    applies(left);
    left = NULL;
}

/* ---- the cases; what a child's status has to be ---- */

static int life(void (*function)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(LIFE_S);
        must(thread_make(time_main));
        function();
        _exit(FOUND);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void life_alone(void)
{
    home_begins();
    struct store_group *group = sealed(1);
    must(store_group_write(group) == 0);
    lands(group);
    must(landed && !came[ROLE_GROUP]);
}

static void *leaves(void *of)
{
    server_lock();
    must(!copy_has(end_of(of)));
    left = of;
    server_unlock();
    return NULL;
}

/* The group is on its way before it is written here (GL5); it lands when it is at both: by who
 * waits for that, or by who hears it. */
static void waits_by(void *(*how)(void *group))
{
    home_begins();
    spare_joins();
    beats_only = true;
    unsigned before = came[ROLE_GROUP];
    struct store_group *group = sealed(1);
    copy_sends();
    must(came[ROLE_GROUP] == before + 1 && pthread_equal(brought, pthread_self()));
    must(store_group_write(group) == 0);
    must(thread_make_with(how, group));
    pass_ms(2 * LEASE_MS);              /* BEATs are answered, so nothing is lost */
    must(!landed && role.is == ROLE_HOME && !role.lost);
    pthread_mutex_lock(&wire);
    struct role_message have = {.kind = ROLE_HAVE, .number = 77, .stamp = last_came.stamp,
                                .lsn = role.flushed};
    word_in(ROLE_TO_OTHER, &have);
    pthread_mutex_unlock(&wire);
    must(comes(&landed));
}

static void life_waits(void) { waits_by(lands); }
static void life_left(void) { waits_by(leaves); }

static void *asks_home(void *unused)
{
    server_lock();
    copy_confirms();
    server_unlock();
    __atomic_store_n(&landed, true, __ATOMIC_SEQ_CST);
    return unused;
}

/* NC4: what was read counts when the other copy has said something since; then at once, though no
 * BEAT is due. */
static void asked_hears(void)
{
    home_begins();
    asks_home(NULL);                    /* alone */
    spare_joins();
    landed = false;
    uint64_t begun = microseconds(NULL);
    for (int i = 0; i < 20; i++) asks_home(NULL);
    must(microseconds(NULL) - begun < 20 * LEASE_MS * 1000 / 8);
    spare_answers = landed = false;
    must(thread_make_with(asks_home, NULL));
    pass_ms(LEASE_MS / 4);
    must(!landed && !role.lost);
    spare_answers = true;
    must(comes(&landed) && role.mate == 2);
}

/* The witness lets it go on without the spare, and what waited lands. */
static void goes_on(void)
{
    home_begins();
    spare_joins();
    beats_only = true;
    struct store_group *group = sealed(1);
    copy_sends();
    must(store_group_write(group) == 0 && thread_make_with(lands, group));
    spare_answers = false;
    must(comes(&landed) && role.is == ROLE_HOME && !role.mate && !record.mate);
}

/* CY2: neither spare nor witness answer: it ends. */
static void stands_still(void)
{
    home_begins();
    spare_joins();
    witness_up = spare_answers = false;
    pass_ms(8 * LEASE_MS);
}

/* CY2: another one is home. */
static void another_is_home(void)
{
    home_begins();
    spare_joins();
    record = (struct role_record){record.term + 1, 2, 0};
    spare_answers = false;
    pass_ms(8 * LEASE_MS);
}

/* CY1: link takes nothing; who seals never waits for it, and the session ends. */
static void link_is_stuck(void)
{
    home_begins();
    spare_joins();
    ways[ROLE_TO_OTHER].stuck = true;
    uint64_t begun = microseconds(NULL);
    static uint8_t bytes[1 << 19];
    struct role_message m = {.kind = ROLE_GROUP, .group = bytes, .bytes = sizeof bytes,
                             .used = sizeof bytes};
    for (int i = 0; i < 40; i++) copy_send(NULL, ROLE_TO_OTHER, &m);
    must(microseconds(NULL) - begun < LEASE_MS * 1000);
    must(channels[ROLE_TO_OTHER].waits <= QUEUE_MOST);
    ways[ROLE_TO_OTHER].stuck = false;
    for (int i = 0; i < 3000 && role.reached; i++) pause_ms(1);
    must(!role.reached);
}

/* What was to go to the other copy in a session that has ended does not come in the next one. */
static void session_ends(void)
{
    struct way *w = &ways[ROLE_TO_OTHER];
    struct role_message m = {.kind = ROLE_NAMED, .number = 1};
    home_begins();
    w->up = true;
    must(comes(&role.reached));
    w->stuck = true;
    for (int i = 0; i < 9; i++) copy_send(NULL, ROLE_TO_OTHER, &m);
    w->closed = true;
    for (int i = 0; i < 3000 && role.reached; i++) pause_ms(1);
    w->up = true;
    must(comes(&role.reached));
    w->stuck = false;
    pause_ms(50);
    must(came[ROLE_NAMED] <= 1);        /* one was on its way */
}

/* The session with the witness ends, and the next one is open. */
static int link_ends(void)
{
    struct way *w = &ways[ROLE_TO_WITNESS];
    unsigned before = __atomic_load_n(&w->opened, __ATOMIC_SEQ_CST);
    __atomic_store_n(&w->closed, true, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&w->closed, __ATOMIC_SEQ_CST)) pause_ms(1);
    __atomic_store_n(&w->up, true, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&w->opened, __ATOMIC_SEQ_CST) == before) pause_ms(1);
    return __atomic_load_n(&home_told, __ATOMIC_SEQ_CST);
}

/* Another link knows nothing of this home, and is told; one that was told is not again. */
static void link_starts_again(void)
{
    home_begins();
    must(home_told == 1);
    must(link_ends() == 1);
    link_pid++;
    must(link_ends() == 2);
    must(link_ends() == 2);
}

/* Started again alone, it took nothing over. */
static void starts_again(void)
{
    struct copy_status s;
    record.term = 5;
    home_begins();
    status_tell(&s);
    must(s.is == COPY_HOME && s.term == 5 && !s.mate && !s.took_us);
}

static void people_ask(void)
{
    char refused[RECAST_TYPE_BYTES];
    home_begins();
    must(ask_port(COPY_STATUS, -1) == 0);
    must(ask_port(COPY_TAKE_OVER, -1) == -EPERM);
    must(ask_port(COPY_TAKE_OVER, 3) == -EBUSY);
    must(ask_port(COPY_RECAST, -1) == -EPERM);
    must(ask_port(COPY_RECAST, 3) == -EAGAIN);  /* it is no spare */
    must(copy_recast_begin((struct store_spare *)&device, "box", 3, refused) == -EINVAL);
    must(ask_port(99, -1) == -ENOSYS);
}

#define CASE(NAME, FUNCTION, STATUS)                                                               \
    static void NAME(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        assert_int_equal(life(FUNCTION), STATUS);                                                  \
    }
CASE(a_home_alone_waits_for_nobody, life_alone, FOUND)
CASE(a_commit_waits_until_both_have_it, life_waits, FOUND)
CASE(who_hears_it_lands_what_was_left, life_left, FOUND)
CASE(it_goes_on_when_the_witness_says_so, goes_on, FOUND)
CASE(a_home_whose_lease_is_over_ends, stands_still, COPY_EXIT)
CASE(a_home_that_is_none_ends, another_is_home, COPY_EXIT)
CASE(what_was_read_is_asked_for_at_the_other_copy, asked_hears, FOUND)
CASE(who_seals_never_waits_for_link, link_is_stuck, FOUND)
CASE(a_session_brings_nothing_of_the_last_one, session_ends, FOUND)
CASE(each_link_is_told_of_the_home, link_starts_again, FOUND)
CASE(who_starts_again_has_taken_nothing_over, starts_again, FOUND)
CASE(who_may_ask_for_what, people_ask, FOUND)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_home_alone_waits_for_nobody),
        cmocka_unit_test(a_commit_waits_until_both_have_it),
        cmocka_unit_test(who_hears_it_lands_what_was_left),
        cmocka_unit_test(it_goes_on_when_the_witness_says_so),
        cmocka_unit_test(a_home_whose_lease_is_over_ends),
        cmocka_unit_test(a_home_that_is_none_ends),
        cmocka_unit_test(what_was_read_is_asked_for_at_the_other_copy),
        cmocka_unit_test(who_seals_never_waits_for_link),
        cmocka_unit_test(a_session_brings_nothing_of_the_last_one),
        cmocka_unit_test(each_link_is_told_of_the_home),
        cmocka_unit_test(who_starts_again_has_taken_nothing_over),
        cmocka_unit_test(who_may_ask_for_what),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
