/*
 * hostile_share.c - a site that takes for itself what all sites of a home share.
 *
 * Aim     whatever it takes in one session and leaves behind for the next, others find room.
 * Method  liar_home.h: the test is the site, and a program of the home's, too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "liar_home.h"
#include "tap.h"

enum { SESSIONS = 5, WATCHES_MANY = 40, VOTES_EACH = 8, DECISIONS_MANY = 40 };
enum { PAGES = SESSIONS * VOTES_EACH + 1 };
struct page { uint64_t word[512]; };
struct root { struct page *page[PAGES]; };
static ps_container *box;
static uint64_t pages[PAGES];

/* ---- the home's own program ---- */

static int make(void *unused)
{
    struct root *root = ps_root(box);
    (void)unused;
    for (int i = 0; root && i < PAGES; i++) {
        if (!(root->page[i] = ps_alloc(box, sizeof(struct page), NULL))) return -errno;
        pages[i] = (uint64_t)(uintptr_t)root->page[i];
    }
    return root ? 0 : -errno;
}

static int export_box(void)
{
    int error = ps_directory_create("exports");
    if (!error) error = ps_directory_create("exports/liar");
    return error ? error : export_as("box", "exports/liar/box", PS_MAY_READ | PS_MAY_WRITE);
}

/* ---- watches: it names no page, and has nothing open by which its end would be heard of ---- */

static void watches(void)
{
    struct kd_message m = {.kind = STORE_WATCH, .word = {1, 1}, .handle = -1};
    int store = (int)kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    unsigned set = 0;
    for (unsigned s = 0; s < SESSIONS; s++) {
        next_session();
        for (uint64_t i = 1; i <= WATCHES_MANY; i++)
            set += asks((struct site_message){.kind = SITE_ASK, .request = STORE_WATCH,
                                              .word = {i, 1}}) == 0;
    }
    kd_call3(KD_PORT_CALL, store, (long)&m, 0);
    tap_ok(m.status == 0, "a site leaves %u sleepers in %u sessions: a program of the home's finds "
           "a place (%d)", set, SESSIONS, m.status);
    m = (struct kd_message){.kind = STORE_WATCH, .word = {1}, .handle = -1};
    kd_call3(KD_PORT_CALL, store, (long)&m, 0);
    kd_call3(KD_HANDLE_CLOSE, store, 0, 0);
}

/* ---- votes, and decisions that are kept; by a store, and of one, that is nowhere ---- */

static struct store_txn_id id_of(unsigned i) { return (struct store_txn_id){{'l', i, i >> 8}}; }

/* How it ends, of a page of its own; serial 0: of none. */
static int votes(unsigned i, uint64_t serial)
{
    struct { struct wire_op op; struct wire_vote vote; } b = {
        .op = {.kind = WIRE_VOTE, .op_bytes = sizeof b},
        .vote = {.id = id_of(i), .coordinator = {66}}};
    if (serial) return commits(pages[i], serial, 0, &b, sizeof b);
    return asks((struct site_message){.kind = SITE_COMMIT, .data = &b, .bytes = sizeof b});
}

static int decides(unsigned i, uint64_t serial)
{
    struct { struct wire_op op; struct wire_decision decision; struct wire_participant to; } b = {
        .op = {.kind = WIRE_DECISION, .op_bytes = sizeof b},
        .decision = {.id = id_of(1000 + i)}, .to = {.store = {66}}};
    return commits(pages[PAGES - 1], serial, 0, &b, sizeof b);
}

static unsigned in_doubt(bool prepared)
{
    struct wire_doubt doubt;
    int store = (int)kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    unsigned n = 0;
    for (uint64_t next = 0;;) {
        struct kd_message m = {.kind = STORE_TXN, .word = {WIRE_TXN_NEXT, next}, .handle = -1,
                               .buffer = &doubt, .buffer_bytes = sizeof doubt};
        if (kd_call3(KD_PORT_CALL, store, (long)&m, 0) < 0 || m.status) break;
        n += doubt.prepared == prepared;
        next = m.word[0];
    }
    kd_call3(KD_HANDLE_CLOSE, store, 0, 0);
    return n;
}

/* ---- memory of its agent ---- */

static void large_asks(void)
{
    static const uint8_t data[100000];
    next_session();
    is(asks((struct site_message){.kind = SITE_ASK, .request = STORE_LOOK, .data = data,
                                  .bytes = sizeof data}), E2BIG,
       "a request that is larger than any of the store's does not wait");
}

static void parts(void)
{
    int last = 0;
    next_session();
    is(votes(PAGES, 0), EACCES, "a site that has nothing open to write does not vote");
    for (unsigned s = 0; s < SESSIONS; s++) {
        next_session();
        anew();
        for (unsigned i = s * VOTES_EACH; i < (s + 1) * VOTES_EACH; i++)
            last = votes(i, granted(pages[i], SITE_EXCLUSIVE));
    }
    unsigned prepared = in_doubt(true);
    tap_ok(prepared == 16 && last == EDEADLK, "of 32 votes it has 16, over its sessions: %u, "
           "and one more runs again (%d)", prepared, last);
    uint64_t serial = granted(pages[PAGES - 1], SITE_EXCLUSIVE);
    for (unsigned i = 0; i < DECISIONS_MANY; i++) last = decides(i, serial);
    unsigned kept = in_doubt(false);
    tap_ok(kept == 32 && last == EDEADLK, "of 64 decisions that are kept it has 32: %u (%d)", kept,
           last);
}

int main(void)
{
    tap_plan(7);
    liar_begin();
    box = ps_open("box", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int error = box ? ps_transaction(make, NULL) : -errno;
    if (!error) error = export_box();
    tap_ok(stream >= 0 && !error, "a container is exported to the site: %s", ps_strerror(error));
    if (error) return 1;
    hear_hello();
    begin();
    watches();
    large_asks();
    parts();
    is((int)kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck is clean");
    return tap_end();
}
