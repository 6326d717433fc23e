/*
 * restore.c - kstore restore: makes a store of an archive, as it was at some time.
 *
 * The newest base that is not too new is copied, and the log since then is replayed behind its own
 * (disk/roll.c). Until all is done the new store has another name, so a restore that was cut off
 * leaves nothing that looks like a store, and is begun again.
 */
#include "archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY_BYTES  (1u << 20)
#define IMAGE_PAGES (64u << 8)          /* 64 MiB of pages at once */

struct restore {
    struct common common;
    const char *to;
    bool list;
    uint64_t csn, time;
    struct archive archive;
    const struct archive_file *base;
    struct archive_reader reader;
    uint64_t log_done, log_bytes;
    bool told;                  /* archive_group has said what is wrong */
};

static const struct argp_option options[] = {
    { "to", 't', "TIME", 0, "what was committed up to then: a time such as 2026-11-28T09:30:00 "
      "(UTC; also 09:30:00.25), csn:N for the transaction of that csn as the last, or latest", 0 },
    { "list", 'l', NULL, 0, "says what ARCHIVE holds, and checks it; restores nothing", 0 },
    COMMON_FORCE("STORE if it exists"), COMMON_QUIET,
    { 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct restore *r = state->input;
    if (key == 't')
        r->to = value;
    else if (key == 'l') {
        r->list = true;
        r->common.wanted = 1;
    } else
        return common_parse(key, value, state);
    return 0;
}

static const struct argp argp = { options, parse, "ARCHIVE STORE", "Makes STORE of the directory "
    "ARCHIVE that `kstore archive` has filled."
    "\vThe store begins a new life: its log does not go into the old archive, but into one of its "
    "own. ARCHIVE is not changed, so a restore can be done again.", NULL, NULL, NULL };

static bool to_parse(struct restore *r)
{
    char *end;
    if (!r->to || !strcmp(r->to, "latest"))
        return true;
    if (!strncmp(r->to, "csn:", 4)) {
        r->csn = strtoull(r->to + 4, &end, 0);
        return r->csn && !*end;
    }
    r->time = time_parse(r->to);
    return r->time;
}

/* ---- the base */

static int base_choose(struct restore *r)
{
    const struct archive *a = &r->archive;
    char first[40];
    for (uint32_t i = 0; i < a->base_count; i++)
        if ((!r->csn || a->bases[i].lsn <= r->csn) && (!r->time || a->bases[i].time <= r->time))
            r->base = &a->bases[i];
    for (uint32_t i = 0; r->base && i < a->log_count; i++)
        r->log_bytes += a->logs[i].lsn >= r->base->lsn ? a->logs[i].bytes : 0;
    if (r->base)
        return SOUND;
    if (!a->base_count)
        fprintf(stderr, "kstore: %s: it holds no base: `kstore archive` makes one\n", a->path);
    else
        fprintf(stderr, "kstore: %s: it begins with LSN %llu, at %s: it has nothing so old\n",
                a->path, (unsigned long long)a->bases[0].lsn, time_text(a->bases[0].time, first));
    return WRONG_USE;
}

/* What is zero stays a hole. */
static int base_copy(struct restore *r, struct image *from, struct image *to)
{
    static uint8_t bytes[COPY_BYTES], zeros[COPY_BYTES];
    struct disk_io in = image_disk_io(from);
    int error = image_resize(to, 0) ?: image_resize(to, from->bytes);
    struct disk_io out = image_disk_io(to);
    for (uint64_t at = 0, n; at < from->bytes && !error; at += n) {
        n = from->bytes - at < sizeof bytes ? from->bytes - at : sizeof bytes;
        error = in.read(in.context, at, bytes, n);
        if (!error && memcmp(bytes, zeros, n))
            error = out.write(out.context, at, bytes, n);
        progress_show(NULL, "base", at, from->bytes);
    }
    if (error)
        fprintf(stderr, "kstore: the base of LSN %llu cannot be copied: %s\n",
                (unsigned long long)r->base->lsn, strerror(-error));
    return error ? CANNOT : SOUND;
}

/* ---- the log */

static int group_next(void *context, store_lsn_t lsn, const void **group, size_t *bytes)
{
    struct restore *r = context;
    int found = archive_group(&r->reader, lsn, group, bytes);
    r->log_done += found > 0 ? *bytes : 0;
    r->told = found < 0;
    progress_show(NULL, "log", r->log_done, r->log_bytes);
    return found;
}

/* -ENODATA, after a message. */
static int load_page(void *context, store_lsn_t csn, uint64_t index, void *bytes)
{
    struct restore *r = context;
    char *name = archive_load_name(&r->archive, csn);
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t got = file < 0 ? -1 : pread(file, bytes, BLOCK_BYTES, (off_t)(index * BLOCK_BYTES));
    if (got != BLOCK_BYTES)
        fprintf(stderr, "kstore: %s: %s\n", name ? name : "?",
                got < 0 ? strerror(errno) : "it is too short");
    if (file >= 0)
        close(file);
    free(name);
    return got == BLOCK_BYTES ? 0 : -ENODATA;
}

static void hole_tell(const struct restore *r, const struct store_report *report)
{
    const struct archive *a = &r->archive;
    uint32_t next = 0;
    while (next < a->log_count && a->logs[next].lsn < report->end_lsn)
        next++;
    char *name = next < a->log_count ? archive_name(a, &a->logs[next], false) : NULL;
    fprintf(stderr, "kstore: %s: %s: what follows LSN %llu is missing, or was changed%s%s. "
            "--to csn:%llu is the last that can be restored from this base\n", a->path,
            report->message, (unsigned long long)report->end_lsn, name ? "; the next file is " : "",
            name ? name : "", (unsigned long long)report->end_lsn);
    free(name);
}

static int roll(struct restore *r, struct image *to)
{
    char when[40];
    struct disk_io io = image_disk_io(to);
    struct store_roll roll = { .context = r, .next = group_next, .page = load_page,
                               .to_csn = r->csn, .to_time = r->time };
    struct store_open_options how = { .flags = STORE_UPGRADE, .roll = &roll,
                                      .image_pages = IMAGE_PAGES };
    struct store_report report;
    struct store *store;
    if (!uuid_random(roll.uuid)) {
        fprintf(stderr, "kstore: no random numbers\n");
        return CANNOT;
    }
    int error = store_open(&io, &host_memory, &how, &store, &report);
    progress_end();
    if (error == -EUCLEAN && r->log_done && !r->told)
        hole_tell(r, &report);
    else if (error && !r->told)
        fprintf(stderr, "kstore: not restored: %s\n",
                report.message ? report.message : error_text(error));
    if (error && roll.load_pages)
        fprintf(stderr, "kstore: the last load is that of csn %llu: load-%016llx.pages\n",
                (unsigned long long)roll.load_csn, (unsigned long long)roll.load_csn);
    if (error)
        return error_status(error);
    bool short_of = r->csn && !roll.reached && roll.last_csn < r->csn;
    error = store_close(store);
    if (error || short_of)
        fprintf(stderr, error ? "kstore: not closed: %s\n"
                : "kstore: not restored: the archive ends before that csn, at LSN %s%llu\n",
                error ? strerror(-error) : "", (unsigned long long)report.end_lsn);
    if (error || short_of)
        return error ? error_status(error) : WRONG_USE;
    printf("restored: the base of LSN %llu, and %llu transactions since",
           (unsigned long long)r->base->lsn, (unsigned long long)roll.transactions);
    if (roll.last_csn)
        printf(", the last of csn %llu, at %s", (unsigned long long)roll.last_csn,
               time_text(roll.last_time, when));
    printf("%s\n", r->time && !roll.reached ? "; the archive has no later one" : "");
    return SOUND;
}

/* ---- all of it */

static int restore(struct restore *r, const char *part)
{
    struct image from = { .count = 0 }, to = { .count = 0 };
    char *name = archive_name(&r->archive, r->base, true);
    int status = name ? image_open(&from, name, O_RDONLY) : CANNOT;
    if (!status)
        status = image_open(&to, part, O_RDWR | O_CREAT);
    if (!status)
        status = base_copy(r, &from, &to);
    if (!status)
        status = roll(r, &to);
    image_close(&to);
    image_close(&from);
    free(name);
    return status;
}

static int restore_named(struct restore *r)
{
    const char *name = r->common.files[1];
    char *part;
    if (!r->common.force && access(name, F_OK) == 0) {
        fprintf(stderr, "kstore: %s exists; give a new name, or --force to replace it\n", name);
        return CANNOT;
    }
    if (asprintf(&part, "%s.part", name) < 0)
        return CANNOT;
    int status = base_choose(r);
    if (!status)
        status = restore(r, part);
    if (!status && rename(part, name)) {
        fprintf(stderr, "kstore: %s: %s\n", name, strerror(errno));
        status = CANNOT;
    }
    if (status)
        (void)unlink(part);
    free(part);
    return status;
}

int restore_main(int count, char **words)
{
    static struct restore r = { .common.wanted = 2 };
    command_parse(&argp, count, words, &r);
    if (!to_parse(&r)) {
        fprintf(stderr, "kstore: --to %s: no time such as 2026-11-28T09:30:00, and no csn:N\n",
                r.to);
        return WRONG_USE;
    }
    int status = archive_open(&r.archive, r.common.files[0]);
    r.reader.archive = &r.archive;
    if (!status)
        status = r.list ? archive_list(&r.archive) : restore_named(&r);
    progress_end();
    archive_reader_close(&r.reader);
    archive_close(&r.archive);
    return status;
}
