/*
 * check.c - kstore check: every structure, page and invariant, by the independent checker.
 */
#include "kstore.h"

#include <fcntl.h>

struct check {
    struct common common;
    bool quick, strict;
};

static const struct argp_option options[] = {
    { "quick", 'k', NULL, 0, "metadata and log only; data pages are not read", 0 },
    { "strict", 's', NULL, 0, "a warning counts as damage", 0 },
    COMMON_JSON, COMMON_QUIET,
    { 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct check *check = state->input;
    if (key == 'k')
        check->quick = true;
    else if (key == 's')
        check->strict = true;
    else
        return common_parse(key, value, state);
    return 0;
}

static const struct argp argp = { options, parse, "IMAGE...", "Verifies a store: superblocks, "
    "checkpoints, hash table, directory, log, replay, and the CRC of every page."
    "\vThe checker is written from the format chapter and shares no algorithm with the store. "
    "A note is what a power cut may leave; a warning says that a safeguard is gone (a power cut, "
    "too, may leave only one valid superblock); damage says that something is lost. In a finding, "
    "the label such as ST21 names the invariant.",
    NULL, NULL, NULL };

static void finding_json(void *context, enum kcheck_level level, const char *label,
                         const char *text)
{
    static const char *const words[] = { "note", "warning", "damage" };
    (void)context;
    json_begin("", '{');
    json_text("level", words[level], 16);
    json_text("invariant", label, 16);
    json_text("text", text, 400);
    json_end();
}

static void summary_json(const struct kcheck_result *r)
{
    static const char *const verdicts[] = { "sound", "damaged", "no store", "cannot read" };
    json_text("verdict", verdicts[r->verdict], 16);
    json_number("error", (uint64_t)-r->error);
    json_number("damages", r->damages);
    json_number("warnings", r->warnings);
    json_number("notes", r->notes);
    json_number("damage_lsn", r->damage_lsn);
    json_number("redo_lsn", r->redo_lsn);
    json_number("end_lsn", r->end_lsn);
    json_number("groups", r->groups);
    json_number("transactions", r->transactions);
    json_bool("older_checkpoint", r->older_checkpoint);
    json_number("containers", r->containers);
    json_number("pages", r->pages);
    json_number("pages_verified", r->pages_verified);
    json_number("pages_in_log", r->pages_in_log);
    json_number("pages_lost", r->pages_lost);
    json_number("extents_used", r->extents_used);
    json_number("extents_free", r->extents_free);
}

static void summary_print(const struct kcheck_result *r, bool quick)
{
    printf("log: %llu groups, %llu transactions from LSN %llu to %llu\n",
           (unsigned long long)r->groups, (unsigned long long)r->transactions,
           (unsigned long long)r->redo_lsn, (unsigned long long)r->end_lsn);
    printf("space: %llu containers, %llu pages in %llu extents, %llu extents free\n",
           (unsigned long long)r->containers, (unsigned long long)r->pages,
           (unsigned long long)r->extents_used, (unsigned long long)r->extents_free);
    printf("pages: %llu verified%s, %llu in the log, %llu lost\n",
           (unsigned long long)r->pages_verified, quick ? " (--quick reads none)" : "",
           (unsigned long long)r->pages_in_log, (unsigned long long)r->pages_lost);
}

static int check(struct image *image, const struct check *wish)
{
    struct kcheck_result result;
    struct kcheck_options how = { .quick = wish->quick, .context = stdout,
                                  .report = wish->common.json ? finding_json : finding_print,
                                  .progress = progress_show };
    struct kcheck_io io = image_kcheck_io(image);
    if (wish->common.json) {
        json_begin("", '{');
        json_begin("findings", '[');
    }
    bool labels = image->own.lost;
    if (labels)
        how.report(how.context, KCHECK_WARNING, "SN3",
                   "a copy of a disk's label is lost; `kstore scrub` writes it anew");
    int status = (int)kcheck_image(&io, &how, &result);
    result.warnings += labels;
    progress_end();
    if (wish->common.json) {
        json_end();
        summary_json(&result);
        json_end();
    } else if (status == (int)KCHECK_NO_STORE || status == (int)KCHECK_CANNOT)
        printf("%s\n", image_error_text(image, result.error));
    else {
        if (result.redo_lsn)
            summary_print(&result, wish->quick);
        printf("%s: %llu damages, %llu warnings\n", status ? "DAMAGED" : "sound",
               (unsigned long long)result.damages, (unsigned long long)result.warnings);
    }
    return status == SOUND && wish->strict && result.warnings  ? DAMAGED
         : status == (int)KCHECK_NO_STORE ? NO_STORE
         : status == (int)KCHECK_CANNOT   ? CANNOT : status;
}

int check_main(int count, char **words)
{
    struct check wish = { .common.wanted = 1 };
    struct image image;
    command_parse(&argp, count, words, &wish);
    int status = image_open(&image, wish.common.files[0], O_RDONLY);
    if (!status)
        status = check(&image, &wish);
    image_close(&image);
    return status;
}
