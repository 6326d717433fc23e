/*
 * archive.c - kstore archive: puts a copy of a store into a directory, and its log since.
 *
 * The store may be open in a guest, which knows nothing of it: groups are read from the ring, where
 * each is told by its LSN and by the CRC of the one before. Only what is known to be durable is
 * taken, for what a power cut takes from the store must not stay in its archive. A ring that went
 * round faster than it was read has lost what lay between; that is a hole, and is told.
 */
#include "archive.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLLOW_SECONDS 10u

struct taking {
    struct common common;
    bool base, follow;
    struct image image;
    struct kview view;
    struct archive archive;
    uint64_t lsn;               /* archived up to here; 0: nothing yet */
    uint32_t crc;               /* of the group that ends there */
    FILE    *file;              /* the log file that is being made, from `first` on */
    uint64_t first, taken;
};

static const struct argp_option options[] = {
    { "base", 'b', NULL, 0, "make a new base, from which a restore begins; without one there is "
      "none older than the archive's first", 0 },
    { "follow", 'w', NULL, 0, "go on, every ten seconds, until it is interrupted", 0 },
    COMMON_QUIET,
    { 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct taking *t = state->input;
    if (key == 'b')
        t->base = true;
    else if (key == 'w')
        t->follow = true;
    else
        return common_parse(key, value, state);
    return 0;
}

static const struct argp argp = { options, parse, "IMAGE ARCHIVE", "Puts into the directory "
    "ARCHIVE what IMAGE has logged since the last time; the first time a copy of the store as "
    "well (a base). IMAGE is not changed, and may be open in a running guest."
    "\v`kstore restore` makes a store of it, as it was at any time since the first base. A running "
    "guest overwrites old log: run this often enough, or with --follow.", NULL, NULL, NULL };

static volatile sig_atomic_t interrupted;
static void on_signal(int number) { (void)number, interrupted = 1; }

static int view_fresh(struct kview *view, struct image *image, bool archived)
{
    kview_close(view);
    memset(view, 0, sizeof *view);
    view->io = image_kcheck_io(image);
    view->archived = archived;
    view->quiet = true;
    view->at_most = KCHECK_DAMAGE;
    kslots_read(view);
    return kslots_choose(view);
}

/* ---- where the archive ends */

/* A base's log ends at its LSN; of which CRC, and is it of this store, of this size? */
static int base_end(struct taking *t, const struct archive_file *base)
{
    struct image image;
    struct kview view = { .quiet = true };
    char *name = archive_name(&t->archive, base, true);
    int status = name ? image_open(&image, name, O_RDONLY) : CANNOT;
    int error = status ? 0
                       : view_fresh(&view, &image, true) ?: klog_follow(&view, view.super.newest);
    if (error)
        fprintf(stderr, "kstore: %s: %s\n", name, error_text(error));
    else if (!status && memcmp(view.super.uuid, t->view.super.uuid, 16)) {
        fprintf(stderr, "kstore: %s: the archive of another store, or of another life of this one, "
                "before it was restored: give a new directory\n", t->archive.path);
        status = WRONG_USE;
    } else if (!status && view.result.end_lsn != base->lsn) {
        fprintf(stderr, "kstore: %s: its log ends at LSN %llu, not where its name says; remove it, "
                "and make a base anew (--base)\n", name, (unsigned long long)view.result.end_lsn);
        status = DAMAGED;
    } else if (!status && !t->base && view.super.extents != t->view.super.extents) {
        printf("the store has grown since its last base: a new one is made\n");
        t->base = true;
    }
    t->lsn = base->lsn;
    t->crc = view.last_crc;
    kview_close(&view);
    if (name)
        image_close(&image);
    free(name);
    return status ? status : error ? error_status(error) : SOUND;
}

/* The last file of the log, if it is newer than the last base. */
static int log_end(struct taking *t)
{
    struct archive last = t->archive;
    last.logs += last.log_count - 1;
    last.log_count = 1;
    struct archive_reader reader = { .archive = &last };
    const void *group;
    size_t bytes;
    int found;
    while ((found = archive_group(&reader, 0, &group, &bytes)) > 0) {
        const struct group_disk *header = group;
        t->lsn = le64_get(header->lsn) + bytes;
        t->crc = le32_get(header->crc);
    }
    archive_reader_close(&reader);
    return found ? error_status(found) : SOUND;
}

static int archive_end(struct taking *t)
{
    const struct archive *a = &t->archive;
    const struct archive_file *base = a->base_count ? &a->bases[a->base_count - 1] : NULL;
    t->base |= !base;
    int status = base ? base_end(t, base) : SOUND;
    return !status && base && a->log_count && a->logs[a->log_count - 1].lsn >= base->lsn
               ? log_end(t) : status;
}

/* ---- a base */

static int part_name(const struct taking *t, char **name)
{
    return asprintf(name, "%s/part", t->archive.path) < 0 ? CANNOT : SOUND;
}

static int part_keep(struct taking *t, const char *part, const struct archive_file *file, bool base)
{
    char *name = archive_name(&t->archive, file, base);
    int folder = open(t->archive.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = name && rename(part, name) == 0 && folder >= 0 && fsync(folder) == 0;
    if (!good)
        fprintf(stderr, "kstore: %s: %s\n", name ? name : part, strerror(errno));
    if (folder >= 0)
        close(folder);
    free(name);
    return good ? SOUND : CANNOT;
}

static int base_make(struct taking *t)
{
    struct image to;
    struct timespec now;
    char *part;
    struct archive_file file;
    int status = part_name(t, &part);
    if (status)
        return status;
    status = image_open(&to, part, O_RDWR | O_CREAT | O_TRUNC);
    if (!status)
        status = image_backup(&t->image, &to, &file.lsn);
    image_close(&to);
    clock_gettime(CLOCK_REALTIME, &now);
    file.time = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    if (!status)
        status = part_keep(t, part, &file, true);
    free(part);
    t->base = false;
    return status ? status : base_end(t, &file);
}

/* ---- the log */

static int log_close(struct taking *t)
{
    struct archive_file file = { .lsn = t->first };
    char *part = NULL;
    if (!t->file)
        return SOUND;
    bool good = !fflush(t->file) && !fsync(fileno(t->file));
    good = !fclose(t->file) && good;
    t->file = NULL;
    if (!good)
        fprintf(stderr, "kstore: %s: %s\n", t->archive.path, strerror(errno));
    int status = good ? part_name(t, &part) : CANNOT;
    if (!status)
        status = part_keep(t, part, &file, false);
    free(part);
    return status;
}

static int group_put(struct taking *t, const struct kgroup *group)
{
    char *part;
    int status = archive_loads_put(&t->archive, &t->image, &t->view, group);
    if (!status && t->file && t->lsn - t->first >= ARCHIVE_FILE_BYTES)
        status = log_close(t);
    if (!status && !t->file) {
        status = part_name(t, &part);
        t->file = status ? NULL : fopen(part, "we");
        t->first = group->lsn;
        free(status ? NULL : part);
    }
    if (!status && (!t->file || fwrite(t->view.buffer, 1, group->bytes, t->file) != group->bytes)) {
        fprintf(stderr, "kstore: %s: %s\n", t->archive.path, strerror(errno));
        return CANNOT;
    }
    t->lsn = group->lsn + group->bytes;
    t->crc = group->crc;
    t->taken += group->bytes;
    return status;
}

/* So much of the log was durable when the superblock, or a later group, was written. */
static int durable_end(struct taking *t, uint64_t *end)
{
    struct kview *view = &t->view;
    const struct kslot *super = &view->super;
    int error = klog_follow(view, super->newest);
    *end = super->checkpoints[super->newest].redo_lsn;
    if (super->epochs[super->epoch_count - 1].first_lsn > *end)
        *end = super->epochs[super->epoch_count - 1].first_lsn;
    if (super->flags & FLAG_CLEAN && super->end_lsn > *end)
        *end = super->end_lsn;
    for (uint32_t i = 0; i < view->group_count; i++)
        if (view->groups[i].durable_lsn > *end)
            *end = view->groups[i].durable_lsn;
    return error;
}

static int hole(const struct taking *t)
{
    fprintf(stderr, "kstore: %s: the log from LSN %llu on was overwritten before it was archived, "
            "or this is not the history that the archive has. `kstore archive --base` makes a new "
            "base; what was committed in between can then not be restored one by one\n",
            t->image.path, (unsigned long long)t->lsn);
    return DAMAGED;
}

/* The group that follows in the ring. */
static int group_follow(struct taking *t, struct kgroup *group)
{
    uint64_t ring = t->view.super.log_bytes, lsn = t->lsn;
    int found = klog_group(&t->view, lsn, group);
    if (found == 1 && group->prev_crc != t->crc)
        found = 0;
    if (!found && lsn % ring) {
        found = klog_group(&t->view, lsn + ring - lsn % ring, group);
        if (found == 1 && group->prev_crc != t->crc)
            found = 0;
    }
    return found;
}

static int log_take(struct taking *t)
{
    uint64_t end, from = t->lsn;
    int error = durable_end(t, &end), status = SOUND;
    while (!error && !status && t->lsn < end) {
        struct kgroup group;
        int found = group_follow(t, &group);
        progress_show(NULL, "log", t->lsn - from, end - from);
        error = found < 0 ? found : 0;
        if (!error)
            status = found ? group_put(t, &group) : hole(t);
    }
    if (error)
        fprintf(stderr, "kstore: %s: %s\n", t->image.path, error_text(error));
    int closed = log_close(t);
    return status ? status : error ? error_status(error) : closed;
}

/* ---- one round, or many */

static int round_take(struct taking *t)
{
    int error = view_fresh(&t->view, &t->image, false);
    if (error) {
        fprintf(stderr, "kstore: %s: %s\n", t->image.path, image_error_text(&t->image, error));
        return error_status(error);
    }
    archive_close(&t->archive);
    int status = archive_open(&t->archive, t->archive.path) ?: archive_end(t);
    if (!status && t->base)
        status = base_make(t) ?: view_fresh(&t->view, &t->image, false);
    return status ? status : log_take(t);
}

static int rounds_take(struct taking *t)
{
    const struct timespec pause = { .tv_sec = FOLLOW_SECONDS };
    struct sigaction action = { .sa_handler = on_signal };
    if (t->follow) {
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
    }
    int status = round_take(t);
    while (!status && t->follow && !interrupted) {
        nanosleep(&pause, NULL);
        status = round_take(t);
    }
    return status;
}

int archive_main(int count, char **words)
{
    static struct taking t = { .common.wanted = 2 };
    command_parse(&argp, count, words, &t);
    t.archive.path = t.common.files[1];
    if (mkdir(t.archive.path, 0777) && errno != EEXIST) {
        fprintf(stderr, "kstore: %s: %s\n", t.archive.path, strerror(errno));
        return CANNOT;
    }
    int status = image_open(&t.image, t.common.files[0], O_RDONLY);
    if (!status)
        status = rounds_take(&t);
    progress_end();
    if (!status)
        printf("archived up to LSN %llu, %llu KiB of log\n", (unsigned long long)t.lsn,
               (unsigned long long)(t.taken >> 10));
    archive_close(&t.archive);
    kview_close(&t.view);
    image_close(&t.image);
    return status;
}
