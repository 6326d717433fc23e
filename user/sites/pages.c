/* pages.c - tables of pages at a home and at a client, as pure state (pages.h). */
#include "pages.h"

#include <stdlib.h>
#include <string.h>

#include "message.h"

enum { ROOM_FIRST = 256 };

/* ---- the table: open addressing, at most half full ---- */

static size_t place_of(const struct site_pages *t, uint64_t page)
{
    uint64_t h = page / SITE_PAGE_BYTES * 0x9e3779b97f4a7c15ull;
    return (size_t)(h >> 20) & (t->room - 1);
}

static size_t look(const struct site_pages *t, uint64_t page)
{
    size_t i = place_of(t, page);
    while (t->at[i].page && t->at[i].page != page) i = (i + 1) & (t->room - 1);
    return i;
}

struct site_page *pages_find(const struct site_pages *t, uint64_t page)
{
    struct site_page *p = t->room ? &t->at[look(t, page)] : NULL;
    return p && p->page ? p : NULL;
}

static bool grow(struct site_pages *t)
{
    struct site_pages more = {.room = t->room ? 2 * t->room : ROOM_FIRST};
    more.at = calloc(more.room, sizeof *more.at);
    if (!more.at) return false;
    for (size_t i = 0; i < t->room; i++)
        if (t->at[i].page) more.at[look(&more, t->at[i].page)] = t->at[i];
    free(t->at);
    t->at = more.at;
    t->room = more.room;
    return true;
}

struct site_page *pages_make(struct site_pages *t, uint64_t page)
{
    struct site_page *p = pages_find(t, page);
    if (p) return p;
    if (t->count == t->most || (t->count >= t->room / 2 && !grow(t))) return NULL;
    p = &t->at[look(t, page)];
    *p = (struct site_page){.page = page};
    t->count++;
    return p;
}

/* The entries behind the free place that it leaves move up to where a look begins. */
static void take_out(struct site_pages *t, size_t hole)
{
    for (size_t i = hole; t->at[i = (i + 1) & (t->room - 1)].page;) {
        size_t way = (i - place_of(t, t->at[i].page)) & (t->room - 1);
        if (way < ((i - hole) & (t->room - 1))) continue;
        t->at[hole] = t->at[i];
        hole = i;
    }
    t->at[hole].page = 0;
    t->count--;
}

void pages_settle(struct site_pages *t, uint64_t page)
{
    struct site_page *p = pages_find(t, page);
    if (p && !p->right && !p->asked && !p->called && !p->held) take_out(t, (size_t)(p - t->at));
}

void pages_forget(struct site_pages *t, uint64_t base, uint64_t end)
{
    struct site_pages left = {.most = t->most};
    for (size_t i = 0; i < t->room; i++)
        if (t->at[i].page && (t->at[i].page < base || t->at[i].page >= end)) left.count++;
    size_t count = left.count;
    for (left.room = ROOM_FIRST; left.room / 2 <= count;) left.room *= 2;
    left.at = calloc(left.room, sizeof *left.at);
    for (size_t i = 0; i < t->room; i++) {
        struct site_page *p = &t->at[i];
        if (!p->page || (p->page >= base && p->page < end)) continue;
        if (left.at) left.at[look(&left, p->page)] = *p;
    }
    if (left.at) {
        free(t->at);
        *t = left;
        return;
    }
    for (size_t i = t->room; i-- > 0;) /* without memory: one by one, from behind as they move up */
        while (t->at[i].page >= base && t->at[i].page < end && t->at[i].page) take_out(t, i);
}

void pages_free(struct site_pages *t)
{
    free(t->at);
    *t = (struct site_pages){.most = t->most};
}

uint64_t age_of(struct site_ages *ages, uint64_t view, uint64_t ticket, uint64_t now)
{
    if (view >= sizeof ages->of / sizeof *ages->of) return 0;
    if (ages->of[view].ticket != ticket) {
        ages->of[view].ticket = ticket;
        ages->of[view].since = now;
    }
    return now - ages->of[view].since;
}

/* Tickets rise, so the first that is not older is found by halves. */
static unsigned tickets_find(const struct site_tickets *t, uint64_t theirs)
{
    unsigned from = 0, to = t->count;
    while (from < to) {
        unsigned middle = (from + to) / 2;
        if (t->of[(t->first + middle) % SITE_TICKETS].theirs < theirs)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

uint64_t tickets_ours(const struct site_tickets *t, uint64_t theirs)
{
    unsigned at = tickets_find(t, theirs);
    return at < t->count ? t->of[(t->first + at) % SITE_TICKETS].ours : 0;
}

void tickets_note(struct site_tickets *t, uint64_t theirs, uint64_t ours)
{
    if (tickets_find(t, theirs) < t->count) return; /* a younger one was faster: it is as old */
    if (t->count == SITE_TICKETS) {
        t->first++;
        t->count--;
    }
    unsigned at = (t->first + t->count) % SITE_TICKETS;
    uint64_t last = t->count++ ? t->of[(at + SITE_TICKETS - 1) % SITE_TICKETS].ours : 0;
    t->of[at].theirs = theirs;
    t->of[at].ours = ours > last ? ours : last;
}

/* ---- at the home ---- */

bool home_get(struct site_page *p, uint64_t number, int right)
{
    if (p->asked || number == 0 || right < p->right) return false;
    p->asked = number;
    return true;
}

void home_taken(struct site_page *p) { p->held++; }

/* A CALL that was put off, or is void with the grant that it named. */
static int call_again(struct site_page *p)
{
    if (p->held || !p->wanted || p->wanted > p->right) return 0;
    if (p->called && p->called <= p->wanted) return 0;
    return p->called = p->wanted;
}

int home_granted(struct site_page *p, int right, uint64_t serial)
{
    p->held--;
    p->asked = 0;
    p->serial = serial;
    if (p->right < right) p->right = (uint8_t)right;
    p->called = 0;
    return call_again(p);
}

bool home_may_give(const struct site_page *p)
{
    return !p || !(p->right | p->called | p->wanted | p->held | (p->asked != 0));
}

void home_gave(struct site_page *p, uint64_t serial)
{
    p->right = SITE_SHARED;
    p->serial = serial;
}

void home_denied(struct site_page *p, site_release *release)
{
    p->asked = 0;
    if (p->right == SITE_EXCLUSIVE) return;
    release(p->page, p->right);
    if (p->wanted > p->right) p->wanted = 0;
}

bool home_wanted(struct site_page *p, int to, site_release *release)
{
    /* what is above its right the client does not have, even if it asks for it at the moment */
    if (p->right <= to && !p->held && release(p->page, p->right)) return false;
    if (!p->wanted || to + 1 < p->wanted) p->wanted = (uint8_t)(to + 1);
    if (p->held || p->right <= to || (p->called && p->called <= to + 1)) return false;
    p->called = (uint8_t)(to + 1);
    return true;
}

bool home_gone(struct site_page *p, uint64_t serial, int to, site_release *release)
{
    if (p->held || !p->serial || p->serial != serial || p->right <= to) return false;
    p->right = (uint8_t)to;
    if (p->called > to) p->called = 0;
    if (release(p->page, to) && p->wanted > to) p->wanted = 0;
    return true;
}

bool home_commits(struct site_page *p, uint64_t serial)
{
    if (p->right != SITE_EXCLUSIVE || p->serial != serial || p->held == UINT8_MAX) return false;
    p->held++;
    return true;
}

int home_committed(struct site_page *p)
{
    p->held--;
    return call_again(p);
}

/* ---- at the client ---- */

int client_wants(const struct site_page *p, int right, bool uses)
{
    if (p->asked || (p->called && !uses)) return SITE_NO;
    return right < p->right ? p->right : right;
}

void client_asked(struct site_page *p, uint64_t number, int right)
{
    p->asked = number;
    p->wanted = (uint8_t)right;
    p->held = 0;
}

bool client_granted(struct site_page *p, uint64_t number, uint64_t serial, int right)
{
    if (!number || p->asked != number || right < p->wanted) return false;
    p->asked = 0;
    p->wanted = p->called = p->held = 0;
    p->serial = serial;
    p->right = (uint8_t)right;
    p->used = false;
    return true;
}

bool client_given(struct site_page *p, uint64_t serial)
{
    if (p->asked || p->right || p->called) return false;
    p->right = SITE_SHARED;
    p->serial = serial;
    return true;
}

bool client_denied(struct site_page *p, uint64_t number)
{
    if (!number || p->asked != number) return false;
    p->asked = 0;
    p->wanted = p->held = 0;
    return true;
}

bool client_cancels(struct site_page *p, bool waits)
{
    if (!p->asked || p->held == GET_CANCELLED) return false;
    p->held = waits ? GET_WANTED : p->held + 1;
    return p->held == GET_CANCELLED;
}

bool client_called(struct site_page *p, uint64_t serial, int to)
{
    if (p->serial != serial || p->right <= to) return false;
    if (!p->called || to + 1 < p->called) p->called = (uint8_t)(to + 1);
    return true;
}

int client_gone(struct site_page *p)
{
    p->right = (uint8_t)(p->called - 1);
    p->called = 0;
    return p->right;
}
