/*
 * store_rot.c - pages that can be told apart, for tests/system/rot.sh, which damages them on the
 * disk.
 *
 *   store_rot write N     64 pages of container "rot", each full of words that say page and N; then
 *                         a checkpoint
 *   store_rot more N      the same of the first 8 pages, without a checkpoint
 *   store_rot read        "good 62, damaged 5 17": what each page's reader is told
 *   store_rot             writes and reads, as a test of its own
 */
#include "store_client.h"

enum { PAGES = 64, WORDS = 512 };

static struct wire_opened box;

static uint64_t *page_at(uint64_t i) { return (uint64_t *)box.base + i * WORDS; }
static uint64_t word_of(uint64_t page, uint64_t n, uint64_t i)
{
    return 0x746f72ull << 40 | page << 32 | n << 16 | i; /* "rot" */
}

struct span { uint64_t n, pages; };

static long fill(void *argument)
{
    const struct span *s = argument;
    for (uint64_t p = 0; p < s->pages; p++)
        for (uint64_t i = 0; i < WORDS; i++) page_at(p)[i] = word_of(p, s->n, i);
    return 0;
}

/* 0; -EBADMSG: silently wrong, which must never be. */
static long look(void *number)
{
    uint64_t p = (uint64_t)number, n = page_at(p)[0] >> 16 & 0xffff;
    for (uint64_t i = 0; i < WORDS; i++)
        if (page_at(p)[i] != word_of(p, n, i)) return -EBADMSG;
    return 0;
}

static int write_all(uint64_t n, uint64_t pages, int checkpoint)
{
    struct span s = {n, pages};
    if (client_open("rot", PS_CREATE | PS_WRITE, NULL, 0, 0, &box) < 0) return -1;
    if (!client_lease(box.container, pages, NULL)) return -1;
    if (client_run(fill, &s) < 0) return -1;
    return checkpoint ? (int)client_call(STORE_CHECKPOINT, 0, 0, 0, NULL, 0, NULL, 0) : 0;
}

/* How many pages are good; prints the others if `tell`. */
static int read_all(int tell)
{
    char bad[512] = "";
    int good = 0;
    for (uint64_t p = 0; p < PAGES; p++) {
        long r = client_run(look, (void *)p);
        good += r == 0;
        size_t n = strlen(bad);
        if (r == -EIO) snprintf(bad + n, sizeof(bad) - n, " %d", (int)p);
        if (r != 0 && r != -EIO) snprintf(bad + n, sizeof(bad) - n, " %d:%ld", (int)p, r);
    }
    if (tell) printf("good %d, damaged%s\n", good, bad);
    return good;
}

int main(int argc, char **argv)
{
    if (client_connect() < 0) {
        printf("Bail out! there is no store\n");
        return 1;
    }
    if (argc > 2) {
        int more = strcmp(argv[1], "more") == 0;
        int r = write_all(strtoull(argv[2], NULL, 10), more ? 8 : PAGES, !more);
        printf("written %d\n", r);
        return r < 0;
    }
    if (argc > 1) {
        if (client_open("rot", 0, NULL, 0, 0, &box) < 0) return 1;
        read_all(1);
        return 0;
    }
    tap_plan(2);
    tap_ok(write_all(1, PAGES, 1) == 0, "pages are written and go home");
    tap_ok(read_all(0) == PAGES, "all are good");
    return tap_end();
}
