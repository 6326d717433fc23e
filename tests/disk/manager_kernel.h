/*
 * manager_kernel.h - the store manager's files, and the part of a kernel that knows pages and views.
 *
 * A test includes it once, with its own `malloc` or threads if it wants others than the system's, and
 * brings kd_system(), a disk (home_write) and what an answered view is to do (view_answered).
 */
#ifndef TESTS_DISK_MANAGER_KERNEL_H
#define TESTS_DISK_MANAGER_KERNEL_H

#include "user/store/batch.c"
#include "user/store/clean.c"
#include "user/store/commit.c"
#include "user/store/container.c"
#include "user/store/device.c"
#include "user/store/gate.c"
#include "user/store/group.c"
#include "user/store/options.c"
#define main store_main
#include "user/store/main.c"
#undef main
#include "user/store/pager.c"
#include "user/store/request.c"
#include "user/store/space.c"
#include "user/store/spill.c"


#undef fail
#include <setjmp.h>
#include <cmocka.h>

enum { PAGES = 2048, VIEWS = 64, CLIENT = 9, OBJECT = 100 };

static struct { uint64_t word[512], csn; } page[PAGES];     /* current versions */
static struct view {
    bool queued, answered;
    int answer;
    uint64_t token, first, count, value;                    /* it writes value into these pages */
    const void *batch;
    uint64_t batch_bytes;
} view[VIEWS];
static uint64_t notified;                                   /* bits for the commit port */

static void view_answered(void);
static int home_write(uint64_t offset, const void *bytes);  /* 0, -EIO */

/* What waits at the commit port; -EAGAIN. */
static long commit_take(struct kd_message *m)
{
    for (unsigned i = 0; i < VIEWS; i++) {
        if (!view[i].queued) continue;
        view[i].queued = false;
        *m = (struct kd_message){.kind = (uint32_t)KD_MSG_COMMIT, .token = view[i].token,
                                 .process = CLIENT, .word = {i, view[i].count},
                                 .buffer = m->buffer, .data_bytes = view[i].batch_bytes};
        if (view[i].batch) memcpy(m->buffer, view[i].batch, view[i].batch_bytes);
        return 0;
    }
    if (!notified) return -EAGAIN;
    *m = (struct kd_message){.kind = (uint32_t)KD_MSG_NOTIFY, .word = {notified},
                             .buffer = m->buffer};
    notified = 0;
    return 0;
}

static long diff(struct kd_diff *d)
{
    const struct view *v = &view[d->view];
    uint8_t *to = d->buffer, *end = to + d->buffer_bytes;
    d->pages = 0;
    uint64_t i = d->cursor;
    for (; i < v->count && end - to >= (long)(4096 + sizeof(struct kd_run)); i++, d->pages++) {
        uint64_t p = v->first + i;
        bool full = page[p].csn < d->full_below;
        struct kd_run *run = (void *)to;
        *run = (struct kd_run){.cookie = cookie_of(server.containers[1]->id, 0), .page = p,
                               .base_csn = page[p].csn, .offset = full ? 0 : 64,
                               .bytes = full ? 4096 : 8,
                               .flags = KD_RUN_LAST | (full ? KD_RUN_FULL : 0)};
        memcpy(run + 1, (uint8_t *)page[p].word + run->offset, run->bytes);
        *(uint64_t *)((uint8_t *)(run + 1) + 64 - run->offset) = v->value;
        to += sizeof(*run) + run->bytes;
    }
    d->cursor = i == v->count ? ~0ull : i;
    d->buffer_bytes = (uint64_t)(to - (uint8_t *)d->buffer);
    return 0;
}

static void answer(uint64_t i, int error)
{
    view[i].answer = error;
    view[i].answered = true;
    view_answered();
}

static long publish(const struct kd_publish *p, long count)
{
    uint64_t last = 0;
    for (long k = 0; k < count; k++) {
        const struct view *v = &view[p[k].view];
        if (p[k].csn <= last || p[k].token != v->token) return -EINVAL;
        last = p[k].csn;
        for (uint64_t i = v->first; i < v->first + v->count; i++) {
            page[i].word[8] = v->value;
            page[i].csn = p[k].csn;
        }
        answer(p[k].view, 0);
    }
    return 0;
}

static long write_homes(struct kd_page_io *io, long count)
{
    for (long i = 0; i < count; i++) {
        io[i].csn = page[io[i].page].csn;
        io[i].crc = crc32c(0, page[io[i].page].word, 4096);
        io[i].status = home_write(io[i].offset_bytes, page[io[i].page].word);
    }
    return 0;
}

#endif
