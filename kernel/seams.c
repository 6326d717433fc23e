/*
 * seams.c - where a lower room has something done that only a higher room knows how to do.
 *
 * Includes and calls run downwards only (scripts/rooms.py). What must go up goes by these tables:
 * the lower room declares its table and says what each entry is for, and this file, on top of all
 * rooms, fills it.
 */
#include "base/panic.h"
#include "block/block.h"
#include "file/file.h"
#include "linux/linux.h"
#include "look/look.h"
#include "message/message.h"
#include "process/descriptor.h"
#include "process/handle.h"
#include "store/store.h"
#include "stream/stream.h"

const struct panic_seam panic_seam = {.report = report_panic};

const struct thread_seam thread_seam = {
    .view_table = right_table,
    .tick = check_tick,
    .serves = locus_serves,
    .leave = process_thread_leave,
    .doomed = view_return_to_user,
    .signalled = signal_return_to_user,
};

static bool can_wait(void)
{
    const struct process *p = process_this();
    return lock_holds_none() && p && !p->takes_reserve;
}

static bool pages_go(void) { return evict_more(true); }

const struct frame_seam frame_seam = {
    .low = evict_wake,
    .take = evict_frame,
    .wait = evict_wait,
    .together = evict_together,
    .pages = pages_go,
    .can_wait = can_wait,
};

const struct console_seam console_seam = {
    .foreground = process_foreground,
    .interrupt = process_interrupt,
};

static void (*const thread_gone[])(struct thread *t) = {
    view_thread_gone, futex_thread_gone, call_thread_gone, NULL,
};

static void (*const process_gone[])(struct process *p) = {
    trace_process_gone, view_process_gone, handle_process_gone, object_process_gone, fd_close_all,
    signal_process_free, NULL,
};

const struct process_seam process_seam = {
    .thread_gone = thread_gone,
    .gone = process_gone,
    .load = elf_load,
    .fault = signal_fault,
    .interrupt = signal_interrupt,
    .wants_no_child = signal_wants_no_child,
    .child_ended = signal_child_ended,
    .killed = report_killed,
    .versions = version_most_kept,
    .left = holders_left,
};

/* Views belong to their thread, disks to their process: neither travels. The system's handle is of
 * no object. */
const struct handle_kind handle_kinds[HANDLE_TYPES] = {
    [HANDLE_PROCESS] = {.travels = true, .get = process_get, .put = process_put},
    [HANDLE_PORT] = {.travels = true, .get = port_get, .put = port_put, .held = port_handle_held,
                     .dropped = port_handle_dropped, .check = port_check},
    [HANDLE_OBJECT] = {.travels = true, .get = object_get, .put = object_put},
    [HANDLE_VIEW] = {.get = handle_uncounted, .put = handle_uncounted, .close = view_close},
    [HANDLE_BLOCK] = {.get = block_get, .put = block_put},
    [HANDLE_BADGE] = {.travels = true, .get = badge_get, .put = badge_put, .check = badge_check},
    [HANDLE_SNAPSHOT] = {.travels = true, .get = snapshot_get, .put = snapshot_put},
    [HANDLE_STREAM] = {.travels = true, .get = stream_get, .put = stream_put},
    [HANDLE_SYSTEM] = {.travels = true, .get = handle_uncounted, .put = handle_uncounted},
};

const struct item_use item_uses[ITEM_KINDS] = {
    [ITEM_PAGE] = {KD_MSG_PAGE, .taken = page_item_taken, .lost = page_item_lost},
    [ITEM_RECALLED] = {KD_MSG_RECALLED},
    [ITEM_COMMIT] = {KD_MSG_COMMIT, .taken = view_item_taken, .lost = view_item_lost},
    [ITEM_SPILL] = {KD_MSG_SPILL, .taken = view_item_taken, .lost = view_item_lost},
    [ITEM_UNSPILL] = {KD_MSG_UNSPILL, .taken = view_item_taken, .lost = view_item_lost},
    [ITEM_CONFLICT] = {KD_MSG_CONFLICT},
    [ITEM_WANTED] = {KD_MSG_WANTED},
    [ITEM_VIEW_GONE] = {KD_MSG_VIEW_GONE, .taken = port_words_taken},
    [ITEM_CLEAN] = {KD_MSG_CLEAN},
    [ITEM_CREDIT_LOW] = {KD_MSG_CREDIT_LOW},
    [ITEM_CLIENT_GONE] = {KD_MSG_CLIENT_GONE, .dropped = attachment_gone_told},
    [ITEM_NOTIFY] = {KD_MSG_NOTIFY, .taken = port_words_taken},
};

const struct port_seam port_seam = {.dead = store_port_dead};
