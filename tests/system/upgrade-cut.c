/*
 * upgrade-cut.c - the load of upgrade-cut.sh: records that ps_upgrade brings over in batches.
 *
 *     upgrade-cut fill    the older program: makes all records, each with its number
 *     upgrade-cut older   opens it as the older program does
 *     upgrade-cut grow    the newer program's start; `batch N` is printed when a batch is committed
 *     upgrade-cut check   opens it as the newer program does, and looks at each record
 */
#include <pstore.h>
#include <stdio.h>
#include <string.h>

enum { RECORDS = 3000, BATCH = 60 };
struct record_1 { struct record_1 *next; uint32_t number; };
struct root_1 { struct record_1 *first; };
struct record { struct record *next; uint64_t number, batch; char note[40]; };
struct root { struct record *first; uint64_t records, batches; };
#define OLDER PS_LAYOUT_AS("struct root", struct root_1, 1)
#define NEWER PS_LAYOUT(struct root, 2)
static ps_container *box;

static int fill(void *unused)
{
    struct root_1 *root = ps_root(box);
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct record_1 *r = ps_new(box, struct record_1, root);
        *r = (struct record_1){root->first, i};
        root->first = r;
    }
    return (void)unused, 0;
}

static void said(void *batch)
{
    printf("batch %lu\n", (unsigned long)(uintptr_t)batch);
}

static int grow(void *from, void *to, void *unused)
{
    struct root_1 *old = from;
    struct root *root = to;
    root->batches++;
    for (int i = 0; i < BATCH && old->first; i++) {
        struct record_1 *r = old->first;
        struct record *copy = ps_new(box = ps_container_of(root), struct record, root);
        if (!copy)
            return -errno;
        old->first = r->next;
        copy->next = root->first;
        copy->number = r->number;
        copy->batch = root->batches;
        root->first = copy;
        root->records++;
        ps_free(r);
    }
    ps_on_commit(said, (void *)(uintptr_t)root->batches);
    return (void)unused, old->first ? PS_MORE : 0;
}

static int check(void *unused)
{
    static unsigned char seen[RECORDS];
    struct root *root = ps_root(box);
    unsigned long bad = root->records != RECORDS, count = 0;
    memset(seen, 0, sizeof seen);
    for (struct record *r = root->first; r; r = r->next, count++) {
        bad += r->number >= RECORDS || seen[r->number] || r->batch == 0 || r->batch > root->batches;
        if (r->number < RECORDS)
            seen[r->number] = 1;
    }
    printf("%s: %lu records in %lu batches\n", bad ? "WRONG" : "right", count, root->batches);
    return (void)unused, 0;
}

/* The status of the program: 0, or 1 with the error told. */
static int told(int error)
{
    if (error)
        printf("%s\n", ps_strerror(error));
    return error != 0;
}

static int with(int flags, const struct ps_layout *layout, int (*body)(void *))
{
    box = ps_open("upgrade", flags, layout);
    return told(!box ? -errno : body ? ps_transaction(body, NULL) : 0);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2)
        return 2;
    if (strcmp(argv[1], "fill") == 0)
        return with(PS_CREATE | PS_WRITE, OLDER, fill);
    if (strcmp(argv[1], "older") == 0)
        return with(0, OLDER, NULL);
    if (strcmp(argv[1], "grow") == 0)
        return told(ps_upgrade("upgrade", OLDER, NEWER, grow, NULL));
    return with(0, NEWER, check);
}
