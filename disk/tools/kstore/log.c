/*
 * log.c - kstore log: the groups and records between the redo LSN and the end of the log.
 */
#include "kstore.h"

#include <string.h>
#include <time.h>

struct log {
    struct common common;
    bool groups_only, older;
};

static const struct argp_option options[] = {
    { "groups", 'g', NULL, 0, "groups only, not their records", 0 },
    { "older", 'o', NULL, 0, "begin at the older checkpoint's redo LSN", 0 },
    COMMON_JSON, COMMON_QUIET,
    { 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct log *log = state->input;
    if (key == 'g')
        log->groups_only = true;
    else if (key == 'o')
        log->older = true;
    else
        return common_parse(key, value, state);
    return 0;
}

static const struct argp argp = { options, parse, "IMAGE...",
    "Lists the log: what a recovery would replay.", NULL, NULL, NULL };

static const char *type_name(unsigned type)
{
    static const char *const names[] = { "?", "page", "difference", "free", "create", "delete",
        "rename", "grow", "layout", "name", "unname", "commit", "no-op", "spill", "logged page",
        "encoder", "claim", "locking", "protection", "durability",
        [RECORD_PAGE_OP] = "operations", [RECORD_PREPARED] = "prepared",
        [RECORD_DECIDED] = "decided", [RECORD_MOVE] = "move", [RECORD_PAGE_HOME] = "home" };
    return type < sizeof names / sizeof *names && names[type] ? names[type] : "?";
}

/* The text that a directory operation carries, or "". */
static const char *text_of(const struct record_disk *record)
{
    const uint8_t *data = (const uint8_t *)(record + 1);
    uint32_t bytes = le32_get(record->data_bytes);
    size_t at = le16_get(record->type) == RECORD_CREATE ? offsetof(struct container_disk, name) : 0;
    switch (le16_get(record->type)) {
    case RECORD_CREATE:
    case RECORD_RENAME:
    case RECORD_LAYOUT:
    case RECORD_NAME_SET:
    case RECORD_NAME_UNSET:
        return bytes >= at + STORE_NAME_BYTES ? (const char *)data + at : "";
    default:
        return "";
    }
}

static bool is_page(unsigned type)
{
    return type == RECORD_PAGE_FULL || type == RECORD_PAGE_DIFF ||
           type == RECORD_PAGE_OP || type == RECORD_PAGE_LOGGED;
}

/* What a commit record says beside its tag, if it says it. */
static void commit_print(const struct record_disk *r)
{
    uint64_t nanoseconds = le64_get(r->base), id = le64_get(r->physical);
    time_t seconds = (time_t)(nanoseconds / 1000000000);
    struct tm when;
    char text[32];
    if (id)
        printf(", id %llu", (unsigned long long)id);
    if (nanoseconds && gmtime_r(&seconds, &when) &&
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &when))
        printf(", at %s.%09lluZ", text, (unsigned long long)(nanoseconds % 1000000000));
}

/* About a transaction of several stores. */
static void doubt_print(const struct record_disk *r)
{
    static const char *const outcomes[] = { "undone", "committed", "committed, kept for others",
                                            "forgotten", "kept for others, again" };
    uint64_t what = le64_get(r->page);
    const uint8_t *id = (const uint8_t *)(r + 1);
    printf(" id ");
    for (uint32_t i = 0; i < sizeof(struct decided_disk) && i < le32_get(r->data_bytes); i++)
        printf("%02x", id[i]);
    if (le16_get(r->type) == RECORD_PREPARED)
        printf(", %llu pages of chain %#llx", (unsigned long long)what,
               (unsigned long long)le64_get(r->base));
    else
        printf(" %s", what < DECIDED_COUNT ? outcomes[what] : "?");
}

static void record_print(const struct record_disk *r, uint64_t lsn)
{
    unsigned type = le16_get(r->type);
    printf("    %-10s", type_name(type));
    if (type == RECORD_COMMIT) {
        printf(" csn %llu, tag %llu, %llu records", (unsigned long long)lsn,
               (unsigned long long)le64_get(r->object), (unsigned long long)le64_get(r->page));
        commit_print(r);
    } else if (type == RECORD_PREPARED || type == RECORD_DECIDED) {
        doubt_print(r);
    } else if (type != RECORD_NOOP && type != RECORD_SPILL)
        printf(" object %llu", (unsigned long long)le64_get(r->object));
    if (is_page(type))
        printf(" page %llu extent %llu base %llu, %u bytes",
               (unsigned long long)le64_get(r->page), (unsigned long long)le64_get(r->physical),
               (unsigned long long)le64_get(r->base), le32_get(r->data_bytes));
    if (type == RECORD_SPILL)
        printf(" of chain %#llx, %llu pages", (unsigned long long)le64_get(r->base),
               (unsigned long long)le64_get(r->page));
    if (type == RECORD_COMMIT && le32_get(r->data_bytes) == sizeof(struct chain_disk))
        printf(", ends chain %#llx", (unsigned long long)
               le64_get(((const struct chain_disk *)(r + 1))->chain));
    if (type == RECORD_ENCODER)
        printf(" encoder %llu", (unsigned long long)le64_get(r->page));
    if (type == RECORD_LOCKING)
        printf(" locking %llu", (unsigned long long)le64_get(r->page));
    if (type == RECORD_PROTECTION)
        printf(" protection %llu", (unsigned long long)le64_get(r->page));
    if (type == RECORD_DURABILITY)
        printf(" durability %llu", (unsigned long long)le64_get(r->page));
    if (kpacked(r))
        printf(" packed");
    if (le16_get(r->flags) & RECORD_WRITTEN)
        printf(" written,");
    if (type == RECORD_MOVE)
        printf(" page %llu to extent %llu", (unsigned long long)le64_get(r->page),
               (unsigned long long)le64_get(r->physical));
    if (type == RECORD_PAGE_CLAIM || type == RECORD_PAGE_HOME)
        printf(" from extent %llu", (unsigned long long)le64_get(r->physical));
    if (type == RECORD_PAGE_FREE || type == RECORD_PAGE_CLAIM || type == RECORD_PAGE_HOME)
        printf(" pages %llu, %llu of them", (unsigned long long)le64_get(r->page),
               (unsigned long long)le64_get(r->base));
    if (*text_of(r))
        printf(" %.63s", text_of(r));
    printf("\n");
}

static void record_json(const struct record_disk *r, uint64_t lsn)
{
    unsigned type = le16_get(r->type);
    json_begin("", '{');
    json_number("lsn", lsn);
    json_text("type", type_name(type), 16);
    json_number("object", le64_get(r->object));
    json_number("page", le64_get(r->page));
    json_number("base", le64_get(r->base));
    json_number("extent", le64_get(r->physical));
    json_number("bytes", le32_get(r->data_bytes));
    if (*text_of(r))
        json_text("name", text_of(r), STORE_NAME_BYTES);
    json_end();
}

static void group_print(const struct kgroup *g, bool json)
{
    if (!json) {
        printf("group at LSN %llu, offset %llu: %llu bytes, epoch %u, %u records, durable to %llu, "
               "crc %08x after %08x\n", (unsigned long long)g->lsn,
               (unsigned long long)g->offset, (unsigned long long)g->bytes, g->epoch, g->records,
               (unsigned long long)g->durable_lsn, g->crc, g->prev_crc);
        return;
    }
    json_begin("", '{');
    json_number("lsn", g->lsn);
    json_number("offset", g->offset);
    json_number("bytes", g->bytes);
    json_number("epoch", g->epoch);
    json_number("records", g->records);
    json_number("durable_lsn", g->durable_lsn);
    json_hex("crc", g->crc);
    json_hex("prev_crc", g->prev_crc);
}

static void records_list(const struct kview *view, const struct kgroup *g, bool json)
{
    const struct group_disk *header = (const void *)view->buffer;
    size_t at = sizeof *header, next, bytes = at + le32_get(header->payload_bytes);
    if (json)
        json_begin("list", '[');
    for (uint32_t i = 0; i < g->records; i++, at = next) {
        const struct record_disk *record = kreplay_record(view->buffer, bytes, at, &next);
        if (!record) {
            if (!json)
                printf("    malformed from byte %zu on\n", at);
            break;
        }
        if (json)
            record_json(record, g->lsn + at);
        else
            record_print(record, g->lsn + at);
    }
    if (json)
        json_end();
}

static void log_list(struct kview *view, const struct log *wish)
{
    bool json = wish->common.json;
    if (json) {
        json_begin("", '{');
        json_number("redo_lsn", view->super.checkpoints[view->super.newest].redo_lsn);
        json_number("older_redo_lsn", view->super.checkpoints[!view->super.newest].redo_lsn);
        json_number("end_lsn", view->result.end_lsn);
        json_number("damage_lsn", view->result.damage_lsn);
        json_bool("torn_tail", view->result.torn_tail);
        json_begin("groups", '[');
    }
    for (uint32_t i = 0; i < view->group_count; i++) {
        struct kgroup group;
        if (klog_group(view, view->groups[i].lsn, &group) != 1)
            continue;
        group_print(&group, json);
        if (!wish->groups_only)
            records_list(view, &group, json);
        if (json)
            json_end();
    }
    if (json) {
        json_end();
        json_end();
    } else
        printf("log: %u groups, to LSN %llu%s%s\n", view->group_count,
               (unsigned long long)view->result.end_lsn,
               view->result.torn_tail ? ", then a torn group" : "",
               view->result.damage_lsn ? ", where acknowledged history breaks off" : "");
}

int log_main(int count, char **words)
{
    struct log wish = { .common.wanted = 1 };
    struct image image;
    struct kview view;
    command_parse(&argp, count, words, &wish);
    int status = image_view(&image, wish.common.files[0], &view);
    if (status > DAMAGED)
        return status;
    if (wish.older && view.super.checkpoints[!view.super.newest].redo_lsn &&
        klog_follow(&view, !view.super.newest))
        status = CANNOT;
    log_list(&view, &wish);
    image_unview(&image, &view);
    return status;
}
