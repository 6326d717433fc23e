/* subject_queue.c - the queue, beside a ring. */
#include <structures/queue.h>

#include "subject.h"

enum { RECORDS = 3000 };
struct job { uint32_t id, twice; uint8_t more[12]; };
PS_QUEUE_OF(jobs, struct job, 256);
static struct kept {
    struct jobs_head head;
    uint32_t first, count, id[RECORDS];
} *kept;
static struct jobs jobs = {.name = "jobs"};

static void place(void *at, struct ps_memory memory)
{
    kept = at;
    jobs.head = &kept->head;
    jobs.memory = memory;
}
static int set_up(void) { return jobs_set_up(&jobs); }
static int tear_down(void) { return jobs_tear_down(&jobs); }

static int push(struct jobs_ends *a)
{
    struct job job = {1 + draw(1000000), 0, {0}};
    job.twice = 2 * job.id;
    int error = kept->count < RECORDS ? jobs_push(a, &job) : 0;
    if (error == 0 && kept->count < RECORDS)
        kept->id[(kept->first + kept->count++) % RECORDS] = job.id;
    return error;
}

static int operation(int growing)
{
    PS_ACCESS(jobs_ends, a, &jobs, PS_CHANGE);
    if (draw(10) < (growing ? 6u : 3u))
        return push(&a);
    struct job job = {0};
    const struct job *first = jobs_first(&a);
    SAME((first != NULL) == (kept->count > 0) && (!first || first->id == kept->id[kept->first]));
    int error = jobs_pop(&a, &job);
    SAME(error == (kept->count ? 0 : -ENOENT));
    if (error)
        return 0;
    SAME(job.id == kept->id[kept->first] && job.twice == 2 * job.id);
    kept->first = (kept->first + 1) % RECORDS;
    kept->count--;
    return 0;
}

static void compare(void)
{
    PS_ACCESS(jobs_ends, a, &jobs, PS_LOOK);
    PS_ACCESS(jobs_range, r, &jobs, PS_LOOK);
    struct ps_queue_stats stats;
    SAME(ps_queue_check(&a.access, &stats, NULL) == 0);
    SAME(stats.records == kept->count);
    for (uint32_t i = 0; i < kept->count; i++) {
        const struct job *next = jobs_next(&r);
        SAME(next && next->id == kept->id[(kept->first + i) % RECORDS]);
    }
    SAME(!jobs_next(&r) && errno == 0);
}

const struct subject subject_queue = {"queue", sizeof(struct kept), place,   set_up,
                                      tear_down, operation,         compare,
                                      offsetof(struct kept, first)};
