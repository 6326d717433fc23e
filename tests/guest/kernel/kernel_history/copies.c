/*
 * copies.c - part TWICE: the same pages in two objects, each with its own clients, as two machines
 * would have them.
 *
 * A page may be read in both, or stored to in one. Whoever asks for a right that the other copy
 * stands against waits until that has been called back and is used no more. What lies in memory
 * without a right may be old, and goes when one is given.
 */
#include "history.h"

enum { RW = KD_READ | KD_WRITE, WAITING_MAX = 64, TRIES = 1000 };

_Atomic long copies_moved, copies_wrong;
static unsigned rights[COPIES][PAGES_MAX];
static struct kd_message waiting[WAITING_MAX];
static unsigned waiting_count;

static unsigned copy_of(const struct kd_message *m) { return (unsigned)m->word[0] - COPY_COOKIE; }
static unsigned wants(const struct kd_message *m) { return m->word[3] & KD_WRITE ? RW : KD_READ; }

static bool in_memory(unsigned copy, uint64_t page)
{
    uint8_t bits = 0;
    kd_call4(KD_OBJECT_INFO, copies[copy], (long)page, 1, (long)&bits);
    return bits & KD_PAGE_RESIDENT;
}

/* Nobody has a right to the page: it leaves the copy's memory. */
static bool dropped(unsigned copy, uint64_t page)
{
    for (int i = 0; i < TRIES && in_memory(copy, page); i++) {
        call(KD_OBJECT_CLEANED, copies[copy], (long)page, (long)KD_CSN_ANY); /* it is at home */
        if (kd_call4(KD_OBJECT_RECALL, copies[copy], (long)page, 1, KD_RECALL_DROP))
            return false;
    }
    return !in_memory(copy, page);
}

/* The copy keeps `to` of its rights to the page. False: it is used still, by these. */
static bool called_back(unsigned copy, uint64_t page, unsigned to, uint64_t users[2])
{
    if (!(rights[copy][page] & ~to))
        return true;
    if (kd_call6(KD_OBJECT_RECALL, copies[copy], (long)page, 1, to, (long)users, 0))
        return false;
    rights[copy][page] &= to;
    copies_moved++;
    return true;
}

static void supply(unsigned copy, uint64_t page, unsigned with)
{
    static uint64_t bytes[KD_PAGE_BYTES / 8];
    for (unsigned w = 0; w < WORDS; w++)
        bytes[w * STEP] = home[page][w];
    struct kd_supply s = {.object = copies[copy], .source = KD_SUPPLY_MEMORY, .rights = with,
                          .page = page, .count = 1, .csn = home_csn[page], .memory = bytes};
    call(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

/* What lies in memory without a right may be old. */
static void give(unsigned copy, uint64_t page, unsigned more)
{
    if (!rights[copy][page] && !dropped(copy, page))
        copies_wrong++;
    rights[copy][page] |= more;
    if (in_memory(copy, page))
        kd_call4(KD_OBJECT_GRANT, copies[copy], (long)page, 1, rights[copy][page]);
    else
        supply(copy, page, rights[copy][page]);
}

/* True: it does not wait any more. */
static bool look(const struct kd_message *m)
{
    uint64_t users[2] = {0}, view = m->word[4] - 1;
    unsigned other = 1 - copy_of(m);
    if (called_back(other, m->word[1], wants(m) == RW ? 0 : KD_READ, users)) {
        give(copy_of(m), m->word[1], wants(m));
        return true;
    }
    if (view >= KD_VIEW_MAX)
        return false;
    return call(KD_VIEW_WAIT, (long)view, (long)users, 0) != 0; /* it is aborted, or has ended */
}

/* What one is given others may wait for: they look behind it. Nobody waits for who asked before,
 * for that may have given up, and nobody tells. */
static void look_all(void)
{
    for (unsigned n = 0; n < waiting_count;) {
        if (look(&waiting[n])) {
            LIST_REMOVE(waiting, n, waiting_count);
            n = 0;
        } else {
            n++;
        }
    }
}

/* A page that is away is asked for once, for all. So it comes without a right, unless the copy has
 * that, and each view asks for itself: who waits is known. */
void copies_asked(const struct kd_message *m)
{
    unsigned copy = copy_of(m);
    if (!(m->word[3] & KD_PAGE_HERE)) {
        supply(copy, m->word[1], rights[copy][m->word[1]]);
        return;
    }
    if (waiting_count == WAITING_MAX) { /* the oldest asks again, or has gone long ago */
        kd_call6(KD_OBJECT_GRANT, copies[copy_of(waiting)], (long)waiting[0].word[1], 1, 0,
                 (long)waiting[0].word[6], 0);
        LIST_REMOVE(waiting, 0, waiting_count);
    }
    waiting[waiting_count++] = *m;
    look_all();
}

void copies_recalled(void) { look_all(); }

void copies_say(void)
{
    for (unsigned i = 0; i < waiting_count; i++)
        printf("# view %lu asks for page %lu of copy %u, access %lu; copies have %u, %u\n",
               waiting[i].word[4] - 1, waiting[i].word[1], copy_of(&waiting[i]),
               waiting[i].word[3], rights[0][waiting[i].word[1]], rights[1][waiting[i].word[1]]);
}

void copies_written(const struct kd_run *r)
{
    copies_wrong += rights[r->cookie - COPY_COOKIE][r->page] != RW;
}
