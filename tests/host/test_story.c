/*
 * test_story.c - `trace --print` (user/trace/story.c) on made-up events.
 *
 * Aim     of the manager's disk requests a commit's story has those that were made for it, whatever
 *         else the manager's threads did meanwhile.
 * Method  bank's thread 7 (view 1, ticket 5) commits by the manager's threads 3, which logs, and 4,
 *         which lands; what the manager reads and writes for others has offsets from 0x90000 on.
 */
#include "user/trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BANK = 7, OTHER = 8, STORE = 2, LOGS = 3, LANDS = 4, PAGER = 5, VIEW = 1, OTHER_VIEW = 2,
       TICKET = 5, EVENTS = 64 };
enum { READ = KD_TRACE_READ_DISK, WRITE = KD_TRACE_WRITE_DISK, FLUSH = KD_TRACE_FLUSH_DISK };

const char *process_name(uint32_t pid) { return pid == BANK ? "bank" : "store"; }

const char *object_name(uint64_t address, uint64_t *offset)
{
    *offset = address;
    return NULL;
}

const char *grant_story(const struct kd_trace_event *e)
{
    return e->a == 1 ? "bank[7] opens" : "another one opens";
}

static struct kd_trace_event events[EVENTS];
static struct trace t = {.cpus = 1, .events = events};

static void add(uint32_t thread, unsigned kind, uint32_t c, uint64_t a, uint64_t b)
{
    bool bank = thread == BANK;
    events[t.count] = (struct kd_trace_event){ .time_ns = 1000 * (t.count + 1),
                                               .thread = thread,
                                               .process = bank ? BANK : STORE,
                                               .kind = (uint8_t)kind,
                                               .view = bank ? VIEW + 1 : 0, .c = c, .a = a,
                                               .b = b };
    t.count++;
}

static void step(uint32_t thread, const char *name)
{
    uint64_t text = 0;
    memcpy(&text, name, strlen(name));
    add(thread, KD_TRACE_MARK, 0, text, 0);
}

static void disk(uint32_t thread, unsigned operation, uint64_t offset)
{
    add(thread, KD_TRACE_DISK, operation, offset, operation == FLUSH ? 0 : KD_PAGE_BYTES);
    add(BANK, KD_TRACE_DONE, operation, offset, 0);     /* an interrupt, of whoever runs */
}

static void commit_begins(void)
{
    t.count = 0;
    add(BANK, KD_TRACE_BEGIN, 0, TICKET, 0);
    add(BANK, KD_TRACE_FREEZE, 2, TICKET, 0);
    add(BANK, KD_TRACE_POST, 1, KD_MSG_COMMIT - KD_MSG_KERNEL, STORE);
    add(BANK, KD_TRACE_WAIT, KD_TRACE_FOR_COMMIT, 0, 0);
}

/* What is told of it; *count: of how many requests. To be freed. */
static char *commit_ends(unsigned *count)
{
    char *text = NULL;
    size_t bytes;
    add(BANK, KD_TRACE_COMMIT, 2, TICKET, 99);
    add(BANK, KD_TRACE_RETURN, KD_TXN_COMMIT, 0, 0);
    FILE *screen = stdout;
    stdout = open_memstream(&text, &bytes);
    int told = story_print(&t, TICKET);
    fclose(stdout);
    stdout = screen;
    assert_int_equal(told, 0);
    *count = 0;
    for (const char *at = text; (at = strstr(at, " the disk")); at++)
        ++*count;
    return text;
}

static void has(const char *story, const char *line)
{
    if (!strstr(story, line))
        fail_msg("\"%s\" is not in:\n%s", line, story);
}

static void a_commit_has_its_own_requests_and_none_of_others(void **state)
{
    (void)state;
    unsigned count;
    commit_begins();
    disk(LOGS, READ, 0x90000);          /* before its copies were looked at */
    add(LOGS, KD_TRACE_DIFF, VIEW, 2, 80);
    disk(LOGS, READ, 0x1000);           /* where its pages are to go */
    disk(PAGER, READ, 0x91000);
    step(LOGS, "CM4");
    add(LOGS, KD_TRACE_DIFF, OTHER_VIEW, 1, 8);
    disk(LOGS, READ, 0x92000);
    step(LOGS, "CM4");
    disk(LANDS, FLUSH, 0);              /* of the group before */
    disk(PAGER, WRITE, 0x93000);
    step(LANDS, "CM7");
    step(LOGS, "CM5");
    disk(LOGS, WRITE, 0x2000);
    step(LOGS, "CM5w");
    disk(PAGER, READ, 0x94000);
    disk(LOGS, READ, 0x95000);          /* for the next group */
    disk(LANDS, FLUSH, 0);
    step(LANDS, "CM5f");
    disk(LANDS, READ, 0x3000);
    step(LANDS, "CM6");
    add(LANDS, KD_TRACE_PUBLISH, OTHER_VIEW, 98, 0);
    add(LANDS, KD_TRACE_PUBLISH, VIEW, 99, 0);
    disk(LANDS, FLUSH, 0);
    char *story = commit_ends(&count);
    has(story, "CM4: store reads 4096 bytes at 0x1000 of the disk");
    has(story, "CM5: store writes 4096 bytes at 0x2000 of the disk");
    has(story, "CM5: store flushes the disk");
    has(story, "CM6: store reads 4096 bytes at 0x3000 of the disk");
    if (count != 4)
        fail_msg("%u requests are told, 4 are its own:\n%s", count, story);
    free(story);
}

/* A group before is still landing when the log has this one; one thread may do it all, too. */
static void a_group_that_lands_before_keeps_its_flush(void **state)
{
    (void)state;
    for (uint32_t lands = LOGS; lands <= LANDS; lands++) {
        unsigned count;
        commit_begins();
        add(LOGS, KD_TRACE_DIFF, VIEW, 2, 80);
        step(LOGS, "CM4");
        step(LOGS, "CM5");
        disk(LOGS, WRITE, 0x2000);
        step(LOGS, "CM5w");
        disk(lands, FLUSH, 0);
        step(lands, "CM7");              /* of the group before */
        disk(lands, FLUSH, 0);
        step(lands, "CM5f");
        step(lands, "CM6");
        add(lands, KD_TRACE_PUBLISH, VIEW, 99, 0);
        char *story = commit_ends(&count);
        has(story, "CM5: store flushes the disk");
        if (count != 2)
            fail_msg("%u requests are told, 2 are its own:\n%s", count, story);
        free(story);
    }
}

/* A manager need not tell its steps. */
static void a_manager_without_marks_has_what_its_thread_did(void **state)
{
    (void)state;
    unsigned count;
    commit_begins();
    add(LOGS, KD_TRACE_DIFF, VIEW, 2, 80);
    disk(LOGS, WRITE, 0x2000);
    disk(PAGER, READ, 0x90000);
    disk(LOGS, FLUSH, 0);
    add(LOGS, KD_TRACE_PUBLISH, VIEW, 99, 0);
    free(commit_ends(&count));
    assert_int_equal(count, 2);
}

/* What the process opened is told, also before its transaction; what others did is not. */
static void a_story_says_by_which_grants(void **state)
{
    (void)state;
    unsigned count;
    t.count = 0;
    add(LOGS, KD_TRACE_GRANT, KD_TRACE_OPENED | BANK << 8, 1, 0);
    add(LOGS, KD_TRACE_GRANT, KD_TRACE_OPENED | OTHER << 8, 2, 0);
    add(BANK, KD_TRACE_BEGIN, 0, TICKET, 0);
    char *story = commit_ends(&count);
    has(story, "2.0 us before  bank[7] opens\n");
    assert_null(strstr(story, "another one"));
    free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_story_says_by_which_grants),
        cmocka_unit_test(a_commit_has_its_own_requests_and_none_of_others),
        cmocka_unit_test(a_group_that_lands_before_keeps_its_flush),
        cmocka_unit_test(a_manager_without_marks_has_what_its_thread_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
