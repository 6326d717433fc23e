/* monitor.c - the lists of the reference monitor, and what follows from what. */
#include "monitor.h"

#include <errno.h>
#include <string.h>

struct monitor now;
/* Names that differ in case, and in how an encoding writes them, are different names. */
const char *const names[NAMES] = {"a", "A", "\xc3\xa4", "a\xcc\x88", "\xff\xfe"};

/* ---- sources ---- */

static bool by_has(const struct by *by, int source)
{
    for (int i = 0; i < by->count; i++)
        if (by->of[i] == source)
            return true;
    return false;
}

static void by_one(struct by *by, int source)
{
    if (by_has(by, source))
        return;
    if (by->count == SOURCES)
        by->full = true;
    else
        by->of[by->count++] = source;
}

bool by_add(struct by *by, const struct by *more)
{
    struct by all = *by;
    for (int i = 0; i < more->count; i++)
        by_one(&all, more->of[i]);
    if (!all.full)
        *by = all;
    return !all.full;
}

static bool by_same(const struct by *a, const struct by *b)
{
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++)
        same = by_has(b, a->of[i]);
    return same;
}

/* ---- looks ---- */

bool is_first(int grant) { return now.grant[grant].above == NONE; }

static bool is_below(int grant, int above)
{
    while (grant != NONE && grant != above)
        grant = now.grant[grant].above;
    return grant == above;
}

bool has_children(int grant)
{
    for (int i = 0; i < GRANTS; i++)
        if (now.grant[i].live && now.grant[i].above == grant)
            return true;
    return false;
}

/* Links of directories on any way to it must be above it; or what they gave would outlive them. */
bool link_ends(int ticket)
{
    for (int at = ticket, next; at != NONE; at = next) {
        const struct by *by = &now.ticket[at].by;
        next = NONE;
        for (int i = 0; i < by->count; i++)
            if (by->of[i] >= GRANTS)
                next = by->of[i] - GRANTS;
            else if (!is_first(by->of[i]) && !is_below(now.ticket[ticket].grant, by->of[i]))
                return false;
    }
    return true;
}

unsigned depth_of(int grant)
{
    unsigned depth = 0;
    while ((grant = now.grant[grant].above) != NONE)
        depth++;
    return depth;
}

int first_of(int box)
{
    for (int i = 0; i < GRANTS; i++)
        if (now.grant[i].live && now.grant[i].box == box && is_first(i))
            return i;
    return NONE;
}

bool lies_in(int to, int directory)
{
    while (to != directory && to != 0)
        to = now.grant[first_of(to)].in;
    return to == directory;
}

int box_free(void)
{
    for (int i = 0; i < BOXES; i++)
        if (!now.box[i].live)
            return i;
    return NONE;
}

int grant_free(void)
{
    for (int i = 0; i < GRANTS; i++)
        if (!now.grant[i].live)
            return i;
    return NONE;
}

bool box_has_entries(int box)
{
    for (int i = 0; i < GRANTS; i++)
        if (now.grant[i].live && now.grant[i].in == box)
            return true;
    return false;
}

bool opened_beside(int box, int actor)
{
    for (int a = 0; a < ACTORS; a++)
        if (a != actor && now.opening[a][box].count)
            return true;
    return false;
}

static int entry_of(int in, int name)
{
    for (int i = 0; i < GRANTS; i++)
        if (now.grant[i].live && now.grant[i].in == in && now.grant[i].name == name)
            return i;
    return NONE;
}

bool ticket_works(int ticket) { return ticket == NONE || !now.ticket[ticket].ended; }

struct seen walked(const struct held *h, const struct way *way)
{
    int ticket = h ? h->ticket : NONE;
    struct seen s = {.grant = 0, .in = NONE, .rights = ALL};
    if (!ticket_works(ticket))
        return (struct seen){.error = now.ticket[ticket].lost ? -EOWNERDEAD : -EIDRM};
    if (ticket != NONE) {
        s.grant = now.ticket[ticket].grant;
        s.rights = h->rights & now.grant[s.grant].rights & ALL;
        by_one(&s.by, GRANTS + ticket);
    }
    for (int i = 0; i < way->parts; i++) {
        int here = now.grant[s.grant].box;
        if (!now.box[here].is_directory)
            return (struct seen){.error = -ENOTDIR};
        if (!(s.rights & R))
            return (struct seen){.error = -EACCES};
        s.in = here;
        s.in_rights = s.rights;
        s.name = way->part[i];
        s.last = i + 1 == way->parts;
        s.grant = entry_of(here, way->part[i]);
        if (s.grant == NONE) {
            s.error = -ENOENT;
            return s;
        }
        s.rights &= now.grant[s.grant].rights;
        if (!is_first(s.grant))
            by_one(&s.by, s.grant);
    }
    by_one(&s.by, s.grant);
    s.box = now.grant[s.grant].box;
    return s;
}

/* ---- what ends ---- */

static void ends(int source);

static void tickets_end(int source)
{
    for (int i = 0; i < TICKETS; i++) {
        struct ticket *t = &now.ticket[i];
        if (!t->used || t->ended || !by_has(&t->by, source))
            continue;
        t->ended = true;
        ends(GRANTS + i);
    }
}

static void ends(int source)
{
    for (int a = 0; a < ACTORS; a++)
        for (int b = 0; b < BOXES; b++)
            if (now.opening[a][b].count && by_has(&now.opening[a][b].by, source))
                now.opening[a][b] = (struct opening){.count = 0};
    tickets_end(source);
}

void handles_end(int grant) { tickets_end(grant); }

static void all_end(const bool gone[GRANTS])
{
    for (int i = 0; i < GRANTS; i++)
        if (gone[i]) {
            now.grant[i].live = false;
            ends(i);
        }
}

void grants_end(int grant, bool itself)
{
    bool gone[GRANTS];
    for (int i = 0; i < GRANTS; i++)
        gone[i] = now.grant[i].live && is_below(i, grant) && (itself || i != grant);
    all_end(gone);
}

void box_end(int box)
{
    bool gone[GRANTS];
    for (int i = 0; i < GRANTS; i++)
        gone[i] = now.grant[i].live && now.grant[i].box == box;
    all_end(gone);
    now.box[box] = (struct box){.live = false};
}

void manager_died(void)
{
    memset(now.opening, 0, sizeof now.opening);
    for (int i = 0; i < TICKETS; i++)
        if (now.ticket[i].used && !now.ticket[i].ended)
            now.ticket[i].ended = now.ticket[i].lost = true;
}

void actor_died(int actor)
{
    for (int b = 0; b < BOXES; b++)
        now.box[b].ghost |= now.opening[actor][b].count > 0;
    memset(now.opening[actor], 0, sizeof now.opening[actor]);
    memset(now.held[actor], 0, sizeof now.held[actor]);
}

/* ---- tickets ---- */

static bool is_wanted(int ticket)
{
    const struct held *all = now.held[0];
    for (int i = 0; i < ACTORS * HANDLES; i++)
        if (all[i].used && all[i].ticket == ticket)
            return true;
    for (int i = 0; i < TICKETS; i++)
        if (now.ticket[i].used && !now.ticket[i].ended &&
            by_has(&now.ticket[i].by, GRANTS + ticket))
            return true;
    for (int a = 0; a < ACTORS; a++)
        for (int b = 0; b < BOXES; b++)
            if (now.opening[a][b].count && by_has(&now.opening[a][b].by, GRANTS + ticket))
                return true;
    return now.mail.used && now.mail.ticket == ticket;
}

/* Those that nobody has, and that nothing came of. */
static void tickets_forget(void)
{
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < TICKETS; i++)
            if (now.ticket[i].used && !is_wanted(i)) {
                now.ticket[i].used = false;
                again = true;
            }
    }
}

int tickets_of(int actor)
{
    int count = 0;
    tickets_forget();
    for (int i = 0; i < TICKETS; i++)
        count += now.ticket[i].used && !now.ticket[i].ended && now.ticket[i].actor == actor;
    return count;
}

int ticket_for(int grant, const struct by *by, int actor)
{
    int depth = 0, free = NONE;
    for (int i = 0; i < by->count; i++)
        if (by->of[i] >= GRANTS)
            depth = now.ticket[by->of[i] - GRANTS].depth + 1;
    for (int try = 0; try < 2 && free == NONE; try++) {
        if (try > 0)
            tickets_forget();
        for (int i = 0; i < TICKETS; i++) {
            const struct ticket *t = &now.ticket[i];
            if (t->used && !t->ended && t->grant == grant && by_same(&t->by, by))
                return i;
            if (!t->used && free == NONE)
                free = i;
        }
    }
    if (free != NONE)
        now.ticket[free] = (struct ticket){true, false, false, grant, actor, depth, *by};
    return free;
}
