/*
 * test_agent_commits.c - COMMITs of a site that wait for a thread (user/sites/agent_commit.c).
 *
 * Aim     they take so many bytes at most, however many come and however large they are; what is
 *         over that is answered at once, to be run again, and when those before are done the next
 *         is taken. One small commit of each view of a site always waits.
 * Method  the file itself, whose threads are this test; malloc is counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *counted_malloc(size_t bytes);
static void counted_free(void *memory);
#define malloc counted_malloc
#define free counted_free
#define KATYDID_CALL_H                  /* there is no kernel */
#include "user/sites/agent_commit.c"
#undef malloc
#undef free
#include "disk/crc32c.c"
#include "user/sites/frame.c"
#define commit_take message_commit_take
#include "user/sites/message.c"
#undef commit_take

static size_t bytes_now, bytes_most;
static void *counted_malloc(size_t bytes)
{
    size_t *m = malloc(sizeof *m + 8 + bytes);
    *m = bytes;
    bytes_now += bytes;
    if (bytes_now > bytes_most) bytes_most = bytes_now;
    return m + 2;
}
static void counted_free(void *memory)
{
    size_t *m = (size_t *)memory - 2;
    bytes_now -= *m;
    free(m);
}

/* ---- the rest of the agent ---- */

struct agent agent;
static unsigned refused;
static int refused_with;
void agent_lock(void) {}
void agent_unlock(void) {}
void agent_wait(enum agent_wait w) { (void)w; }
void agent_changed(enum agent_wait w) { (void)w; }
_Noreturn void agent_ends(const char *why) { (void)why, abort(); }
void agent_send(const struct site_message *m)
{
    assert_int_equal(m->kind, SITE_REFUSED);
    refused_with = m->error;
    refused++;
}
void *agent_room(void) { return NULL; }
void agent_send_later(size_t bytes) { (void)bytes; }
void turn_ends(void) {}
struct container *container_at(uint64_t page) { return (void)page, NULL; }
void container_let(struct container *c) { (void)c; }
struct site_page *pages_find(const struct site_pages *t, uint64_t page)
{
    return (void)t, (void)page, NULL;
}
int home_committed(struct site_page *p) { return (void)p, 0; }
bool home_commits(struct site_page *p, uint64_t serial) { return (void)p, (void)serial, false; }
void page_call(struct site_page *p, int due) { (void)p, (void)due; }
void page_site_commits(void) {}
uint32_t parts_of(const uint8_t *batch, size_t bytes) { return (void)batch, (void)bytes, 0; }
bool parts_commit(struct commit *c) { return (void)c, false; }
bool snapshot_waits(void) { return false; }
int outcome_take(uint8_t *batch, size_t *bytes, uint64_t *n)
{
    return (void)batch, (void)bytes, (void)n, 0;
}
int outcome_note(unsigned thread, uint64_t n) { return (void)thread, (void)n, 0; }
void outcome_noted(unsigned thread, uint64_t n) { (void)thread, (void)n; }
int convert_store(const struct site_message *m, bool converts, struct convert_image **made)
{
    return (void)m, (void)converts, (void)made, 0;
}
void convert_stored(struct convert_image **made, bool committed) { (void)made, (void)committed; }
int ps_site_batch(const void *batch, size_t bytes) { return (void)batch, (void)bytes, 0; }
int ps_site_transaction(int (*fn)(void *), void *arg, int holder, uint64_t ticket,
                        struct ps_options options)
{
    return (void)fn, (void)arg, (void)holder, (void)ticket, (void)options, 0;
}

/* ---- the site ---- */

static void comes(size_t batch_bytes)
{
    static _Alignas(8) uint8_t frame[FRAME_BYTES_MAX], batch[FRAME_BYTES_MAX];
    struct site_message m = {.kind = SITE_COMMIT, .number = 1, .data = batch,
                             .bytes = batch_bytes};
    struct frame f;
    size_t bytes = message_put(&m, frame, sizeof frame);
    assert_true(bytes > 0 && frame_head(&f, frame, bytes) && message_take(&m, &f, frame));
    commit_do(&m, frame, bytes);
}

static unsigned done(unsigned most)
{
    unsigned n = 0;
    for (struct commit *c; n < most && (c = commit_take()); n++) commit_free(c);
    return n;
}

static void what_waits_has_an_end(void **state)
{
    enum { LARGE = 1 << 20, HEADS = 4096 };
    (void)state;
    for (unsigned size = 0; size < LARGE; size += LARGE / 8) {
        bytes_most = bytes_now;
        refused = refused_with = 0;
        for (unsigned i = 0; i < 1100; i++) comes(size < LARGE - HEADS ? size : LARGE - HEADS);
        assert_true(bytes_most <= COMMITS_BYTES_MAX + (4u << 20)); /* heads, and spare ones */
        assert_true(refused > 0 && refused_with == EDEADLK);
        unsigned before = refused, waited = 1100 - refused;
        assert_int_equal(done(1), 1);
        comes(size);
        assert_int_equal(refused, before);      /* there is room again */
        comes(size);
        assert_int_equal(refused, before + 1);
        assert_int_equal(done(~0u), waited);
    }
}

static void each_view_of_a_site_may_commit(void **state)
{
    (void)state;
    refused = 0;
    for (unsigned i = 0; i < KD_VIEW_MAX; i++) comes(2000);
    assert_int_equal(refused, 0);
    assert_int_equal(done(~0u), KD_VIEW_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_has_an_end),
        cmocka_unit_test(each_view_of_a_site_may_commit),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
