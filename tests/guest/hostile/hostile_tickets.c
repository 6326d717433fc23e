/*
 * hostile_tickets.c - a program that takes handles of the store by thousands.
 *
 * Aim     What it dropped is given to others: 8,191 handles, each by a way of its own, leave room.
 *         Who holds as many as one may have hears -EMFILE, and nobody else does; one that he
 *         drops is his again. What was got by a handle that is closed still ends with its source.
 *         A handle that was asked for by a handle that was asked for by a handle ... is so deep,
 *         and no deeper.
 * Method  Directories in directories, 13 deep. From each, handles of all below it are asked for:
 *         2^13 - 1 ways, of which at most 13 are held at once; each is a ticket of the store
 *         manager's (user/store/path.c: PT3), which had 4,096 of them for all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pstore_test.h"
#include "store_protocol.h"

struct page { uint64_t number; };
#define PAGE PS_LAYOUT(struct page, 1)
enum { DEPTH = 13, WAYS = (1 << DEPTH) - 1, EACH = 128, HELD = 240 };
enum { WALKS = PS_MAY_READ | PS_MAY_MANAGE, PASSES = WIRE_MAY_READ | WIRE_MAY_GRANT };

static void drop(int handle) { kd_call3(KD_HANDLE_CLOSE, handle, 0, 0); }

static int held[HELD];
static unsigned taken, holding, most;
static int failed;

/* All ways from the handle's directory, which is `depth` deep, down; -1: from the root. */
static void ways(int handle, unsigned depth)
{
    char path[2 * DEPTH + 1] = "";
    for (unsigned below = depth; below < DEPTH && !failed; below++) {
        strcat(path, below > depth ? "/d" : "d");
        int h = handle < 0 ? ps_handle(path, PS_MAY_READ | PS_MAY_GRANT)
                           : handle_by(handle, path, PASSES);
        if (h < 0) {
            failed = h;
            return;
        }
        taken++;
        ways(h, below + 1);
        if (holding < most)
            held[holding++] = h;
        else
            drop(h);
    }
}

static void ways_begin(unsigned keep)
{
    taken = holding = 0;
    failed = 0;
    most = keep;
    ways(-1, 0);
}

/* A second program: one handle, of what nobody else has one. */
static int role_other(void)
{
    int h = ps_handle("other", PS_MAY_READ);
    return h >= 0 ? 0 : -h;
}

static int directories(bool make)
{
    char path[2 * DEPTH + 1] = "";
    int lengths[DEPTH], r = 0;
    for (int i = 0; i < DEPTH; i++) {
        strcat(path, i ? "/d" : "d");
        lengths[i] = (int)strlen(path);
        if (make && r == 0) r = ps_directory_create(path);
    }
    for (int i = DEPTH; !make && r == 0 && i-- > 0;) {
        path[lengths[i]] = 0;
        r = ps_delete(path);
    }
    return r;
}

static bool sources_end(void)
{
    int above = ps_handle("d", WALKS | PS_MAY_GRANT);
    int below = above < 0 ? above : handle_by(above, "d/d", PASSES);
    drop(above);
    ways_begin(0); /* so it is looked for what nobody has */
    if (below < 0 || failed || handle_by(below, "d", PASSES) < 0) return false;
    return ps_take_back("d") >= 0 && handle_by(below, "d", PASSES) == -EIDRM;
}

/* Each asked for by the one before, which is dropped: how many, until there is an error. */
static int chain(int *error)
{
    int count = 0, at = ps_handle("d", PS_MAY_READ | PS_MAY_GRANT);
    for (int next = at; next >= 0 && count < EACH; count++) {
        next = handle_by(at, "", PASSES);
        drop(at);
        *error = next;
        at = next;
    }
    drop(at);
    return count;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "other") == 0) return role_other();
    tap_plan(8);
    ps_container *other = ps_open("other", PS_CREATE | PS_WRITE, PAGE);
    int r = directories(true);
    tap_ok(other && r == 0, "directories, 13 deep: %d", r);
    ways_begin(0);
    tap_ok(!failed && taken == WAYS, "%u handles, none of them kept: %d", taken, failed);
    tap_ok(child_run(argv[0], "other", NULL) == 0, "another program gets one");
    ways_begin(HELD);
    tap_ok(failed == -EMFILE && holding <= EACH, "who holds %u hears -EMFILE: %d", holding, failed);
    r = child_run(argv[0], "other", NULL);
    tap_ok(r == 0, "and nobody else does: %d", r);
    while (holding > 0) drop(held[--holding]);
    r = ps_handle("d", PS_MAY_READ);
    drop(r);
    tap_ok(r >= 0 && sources_end(),
           "what he drops is his again; what is left ends with its source");
    int deep = chain(&r);
    tap_ok(r == -EMLINK && deep > DEPTH && deep < EACH,
           "handles of handles of handles: %d, then -EMLINK: %d", deep, r);
    ps_close(other);
    r = directories(false);
    tap_ok(r == 0 && ps_delete("other") == 0 && kd_call3(KD_CHECK, 0, 0, 0) == 0,
           "all is deleted; kcheck: %d", r);
    return tap_end();
}
