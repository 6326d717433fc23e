/*
 * kernel_below.c - a port comes to stand on another (KD_PORT_BELOW) while its objects end.
 *
 * Aim     a port that has had objects keeps its rank and its base: -EBUSY, for a commit there may
 *         be under way. Who destroys an object comes to an end, though its manager claims a commit
 *         there again and again; and the base goes on.
 * Method  a base (own_manager.h), and in each round a port with an object. A transaction commits
 *         there; one thread asks for its changes again and again, so the commit is claimed, and
 *         some destroy the object at once: they wait for the claim, and whoever comes back puts the
 *         port on the base, if it may. All of them must come to their end, and the base go on.
 */
#include "own_manager.h"

#include <semaphore.h>
#include <stdio.h>

enum { ROUNDS = 24, PAGES = 64, ENDERS = 4, ROUND_PAGES = 1000, WAIT_MS = 20000 };

static int p, o;
static uint64_t at;
static struct kd_message commit;
static _Atomic int over;
static pthread_barrier_t together;

static int write_round(void *unused)
{
    for (unsigned i = 0; i < ROUND_PAGES; i++)
        *(volatile uint64_t *)(at + i * KD_PAGE_BYTES) = i + 1;
    return unused != NULL;
}
static void *client(void *unused)
{
    run(write_round, NULL, KD_SERIALISABLE, 0);
    view_anew();
    return unused;
}

static void *asks(void *unused)
{
    static uint8_t buffer[ROUND_PAGES * (KD_PAGE_BYTES + 2 * sizeof(struct kd_run))];
    for (int i = 0; !over; i++) {
        if (i == 1) pthread_barrier_wait(&together);
        struct kd_diff d = {.view = commit.word[0], .token = commit.token, .buffer = buffer,
                            .buffer_bytes = sizeof buffer};
        kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
    }
    return unused;
}

static _Atomic long refused;
static void *ends(void *unused)
{
    pthread_barrier_wait(&together);
    kd_call3(KD_OBJECT_DESTROY, o, 0, 0);
    if (kd_call3(KD_PORT_BELOW, p, (long)&port, 1) == -EBUSY)
        __atomic_fetch_add(&refused, 1, __ATOMIC_SEQ_CST);
    return unused;
}

static bool round_begin(void)
{
    p = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = p, .commit_port = p, .flags = KD_OBJECT_TRANSACTIONAL,
                                 .pages = ROUND_PAGES, .name = "below"};
    o = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    at = c.base;
    struct kd_supply s = {.object = o, .source = KD_SUPPLY_ZERO, .count = ROUND_PAGES,
                          .rights = KD_READ | KD_WRITE};
    return o >= 0 && kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == 0 &&
           kd_call3(KD_SPACE_ATTACH, getpid(), o, KD_RIGHT_READ | KD_RIGHT_WRITE) == 0;
}

static bool round_all(void)
{
    pthread_t writer, asker, enders[ENDERS];
    if (!round_begin()) return false;
    over = 0;
    pthread_create(&writer, NULL, client, NULL);
    commit = (struct kd_message){0};
    bool good = kd_call3(KD_PORT_RECEIVE, p, (long)&commit, -1) == 0 &&
                commit.kind == (uint32_t)KD_MSG_COMMIT;
    pthread_create(&asker, NULL, asks, NULL);
    for (int i = 0; i < ENDERS; i++) pthread_create(&enders[i], NULL, ends, NULL);
    for (int i = 0; i < ENDERS; i++) pthread_join(enders[i], NULL);
    over = 1;
    pthread_join(asker, NULL);
    kd_call3(KD_TXN_REFUSE, (long)commit.word[0], (long)commit.token, EIO);
    pthread_join(writer, NULL);
    kd_call3(KD_HANDLE_CLOSE, p, 0, 0);
    return good;
}

/* ---- the base goes on ---- */

static _Atomic int went_on;
static int write_base(void *page)
{
    *word_of((unsigned)(uintptr_t)page, 0) += 1;
    return 0;
}
static void *commits(void *unused)
{
    for (int i = 0; i < ROUNDS; i++)
        went_on += run(write_base, (void *)(uintptr_t)i, KD_SERIALISABLE, 0) == 0;
    return unused;
}

int main(void)
{
    pthread_t t;
    bool good = start_manager((struct own_manager){.pages = PAGES});
    tap_plan(4);
    good = good && round_begin();
    kd_call3(KD_OBJECT_DESTROY, o, 0, 0);
    long below = kd_call3(KD_PORT_BELOW, p, (long)&port, 1);
    tap_ok(good && below == -EBUSY, "a port that had an object keeps its base (%ld)", below);
    pthread_barrier_init(&together, NULL, ENDERS + 1);
    for (int i = 0; i < ROUNDS && good; i++) good = round_all();
    tap_ok(good && refused == ROUNDS * ENDERS,
           "ports whose last object has ended do not come to stand on a base (%ld)", refused);
    pthread_create(&t, NULL, commits, NULL);
    for (int i = 0; i < WAIT_MS && went_on < ROUNDS; i++) pause_ms(1);
    tap_ok(went_on == ROUNDS, "whose commits go on (%d)", went_on);
    tap_ok(check() == 0, "kcheck");
    return tap_end();
}
