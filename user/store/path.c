/*
 * path.c - whose request it is, where its paths lead, and what ends when a grant is taken back.
 *
 * directory.c has the grants, which are durable. Here is what is volatile: *tickets*, one for each
 * handle that was given out. A ticket is the number of the handle's badge. It says of which grant
 * the handle is, and by which others (links of directories on the way, the ticket of who asked for
 * it) it was reached: its *sources*. Openings have sources, too.
 *
 * Invariants
 *   PT1  A ticket or an opening that is there has sources that have not ended: it ends in the
 *        section in which the change that ends one of them is applied.
 *   PT2  A ticket's number is never used again while this port lives: so a request that was
 *        received by a badge that ended meanwhile finds no ticket (RT6).
 *   PT3  A ticket is forgotten only if no badge has its number, and no ticket and no opening has it
 *        as a source. That is looked for when who asked for it is at his limit, and
 *        when there are twice as many tickets as the last look left.
 *   PT4  Tickets lie in the order of their numbers.
 */
#include "group.h"
#include "path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICKET          (1ull << 62)    /* numbers of tickets; grants have none so high, but 63 */
#define TICKETS_MAX     32768u
#define TICKETS_EACH    128u            /* of a process; it can have 256 handles */
#define TICKETS_FEW     256u            /* so many may be nobody's */
#define TICKETS_DEEP    16u             /* made of one another */

struct ticket {
    uint64_t number, serial;
    uint64_t process;                   /* that asked for it */
    unsigned depth;                     /* 0: no ticket is a source of it; at most one is */
    bool source, ends;                  /* while they are looked through */
    struct sources by;
};
static struct ticket *tickets;
static unsigned ticket_count, ticket_room, ticket_look = TICKETS_FEW;
static uint64_t ticket_next = TICKET;

struct directory *paths;
static _Thread_local struct { uint32_t rights; uint64_t number, process; } caller;

void caller_set(const struct kd_message *m)
{
    directory_lack.missing = 0;
    caller.rights = m->badge_rights;
    caller.process = m->process;
    caller.number = m->badge_rights ? m->badge : 0;
}

bool caller_is_confined(void) { return caller.rights != 0; }

void caller_refused(const struct kd_message *m, struct kd_message *reply)
{
    const struct directory_lack *lack = &directory_lack;
    if (reply->status != -EACCES) return;
    if (m->kind != STORE_STATS) /* libpstore asks for these at each connection */
        grant_trace(KD_TRACE_REFUSED, m->process, lack->missing ? lack->serial : 0, lack->missing,
                    m->kind);
    reply->word[0] = lack->missing;
    reply->word[1] = lack->has;
    reply->word[2] = lack->up;
}

/* ---- traces ---- */

uint32_t grant_short(uint64_t serial)
{
    return (uint32_t)(serial & ~KD_TRACE_FIRST) | (serial & DIRECTORY_FIRST ? KD_TRACE_FIRST : 0);
}

void grant_trace(unsigned what, uint64_t process, uint64_t serial, uint32_t rights, uint64_t more)
{
    (void)KD4(KD_TRACE, KD_TRACE_GRANT_IT, what | process << 8, serial,
              rights | (more & UINT32_MAX) << 32);
}

/* ticket_from returns the first ticket of this number or a higher one; NULL: there is none. */
static struct ticket *ticket_from(uint64_t number)
{
    unsigned low = 0, high = ticket_count;
    while (low < high) {
        unsigned mid = low + (high - low) / 2;
        if (tickets[mid].number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low < ticket_count ? &tickets[low] : NULL;
}

static struct ticket *ticket_find(uint64_t number)
{
    struct ticket *t = ticket_from(number);
    return t && t->number == number ? t : NULL;
}

/* tickets_remove removes those that end: how many. */
static unsigned tickets_remove(void)
{
    unsigned left = 0, all = ticket_count;
    for (unsigned i = 0; i < all; i++)
        if (!tickets[i].ends) tickets[left++] = tickets[i];
    ticket_count = left;
    return all - left;
}

static int ticket_at(uint64_t number, uint32_t rights, struct directory_at *at)
{
    const struct ticket *t = ticket_find(number);
    if (!t) return -EIDRM;
    *at = (struct directory_at){.serial = t->serial, .rights = rights & DIRECTORY_ALL};
    return 0;
}

int caller_at(struct directory_at *at)
{
    *at = DIRECTORY_AT_ROOT;
    return caller_is_confined() ? ticket_at(caller.number, caller.rights, at) : 0;
}

int caller_manages(void)
{
    struct directory_at at;
    int r = caller_at(&at);
    uint32_t has = at.serial == DIRECTORY_ROOT_SERIAL ? at.rights : 0;
    return r < 0 ? r : directory_needs(at.serial, has, DIRECTORY_MANAGE, DIRECTORY_LACK_ROOT);
}

/* ---- walking ---- */

static int source_add(struct sources *by, uint64_t serial)
{
    for (unsigned i = 0; i < by->count; i++)
        if (by->of[i] == serial) return 0;
    if (by->count == SOURCES_MAX) return -EMLINK;
    by->of[by->count++] = serial;
    return 0;
}

int sources_add(struct sources *to, const struct sources *more)
{
    struct sources all = *to;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < more->count; i++) r = source_add(&all, more->of[i]);
    if (r == 0) *to = all;
    return r;
}

static bool is_ticket(uint64_t serial) { return serial & TICKET && !(serial & DIRECTORY_FIRST); }

static bool source_holds(uint64_t serial)
{
    uint64_t container;
    uint32_t rights;
    if (is_ticket(serial)) return ticket_find(serial) != NULL;
    return directory_grant(paths, serial, &container, &rights) == 0;
}

uint64_t sources_grant(const struct sources *by, uint64_t of, bool *handle)
{
    uint64_t found = 0, container;
    uint32_t rights;
    *handle = false;
    for (unsigned i = 0; i < by->count; i++) {
        *handle |= is_ticket(by->of[i]);
        if (!is_ticket(by->of[i]) && directory_grant(paths, by->of[i], &container, &rights) == 0 &&
            container == of)
            found = by->of[i];
    }
    return found;
}

bool sources_hold(const struct sources *by)
{
    for (unsigned i = 0; i < by->count; i++)
        if (!source_holds(by->of[i])) return false;
    return true;
}

int path_walk(const char *path, struct directory_found *found, struct sources *by)
{
    struct directory_at at;
    by->count = 0;
    int r = caller_at(&at);
    if (r == 0 && caller_is_confined()) r = source_add(by, caller.number);
    if (r == 0) r = directory_walk(paths, at, path, found);
    if (r == 0 && found->links > sizeof(found->link) / sizeof(found->link[0])) r = -EMLINK;
    for (unsigned i = 0; r == 0 && i < found->links; i++) r = source_add(by, found->link[i]);
    return r == 0 ? source_add(by, found->serial) : r;
}

int path_container(const char *path, uint32_t rights, struct directory_found *found,
                   struct sources *by)
{
    int r = path_walk(path, found, by);
    if (r == 0 && found->is_directory) r = -EISDIR;
    return r == 0 ? directory_way_needs(found, found->parts, rights, 0) : r;
}

/* ---- what ends ---- */

bool sources_have(const struct sources *by, uint64_t serial)
{
    for (unsigned i = 0; i < by->count; i++)
        if (by->of[i] == serial) return true;
    return false;
}

static struct ticket *ticket_above(const struct sources *by)
{
    for (unsigned i = 0; i < by->count; i++)
        if (is_ticket(by->of[i])) return ticket_find(by->of[i]);
    return NULL;
}

/* tickets_end needs one pass: a ticket comes behind the one of which it was made (PT4). */
void tickets_end(uint64_t serial)
{
    for (struct ticket *t = tickets; t < tickets + ticket_count; t++) {
        const struct ticket *above = ticket_above(&t->by);
        t->ends = sources_have(&t->by, serial) || (above && above->ends);
        if (!t->ends) continue;
        KD2(KD_BADGE_END, server.port, t->number);
        openings_end(t->number);
    }
    (void)tickets_remove();
}

static void ends(uint64_t serial)
{
    openings_end(serial);
    tickets_end(serial);
}

/* ---- changes ---- */

void change_wait(void)
{
    while (directory_change(paths)) pthread_cond_wait(&server.changed, &server.lock);
}

void change_drop(void)
{
    directory_dropped(paths);
    quota_again();
    pthread_cond_broadcast(&server.changed);
}

int change_commit(void)
{
    struct directory_change *c = directory_change(paths);
    uint64_t cursor = 0, serial;
    server_unlock();
    int r = c->count ? commit_own(c->ops, c->count) : 0;
    server_lock();
    while (r == 0 && directory_ended(paths, &cursor, &serial)) ends(serial);
    if (r == 0)
        directory_applied(paths);
    else
        directory_dropped(paths);
    quota_again();
    pthread_cond_broadcast(&server.changed);
    return r;
}

/* ---- tickets ---- */

static void source_mark(const struct sources *by)
{
    struct ticket *above;
    for (unsigned i = 0; i < by->count; i++)
        if (is_ticket(by->of[i]) && (above = ticket_find(by->of[i]))) above->source = true;
}

/* tickets_forget forgets tickets of the process (0: of all) that nobody has any more (PT3), later
 * ones first: sources of a ticket are older. How many. */
static unsigned tickets_forget(uint64_t process)
{
    for (unsigned i = 0; i < ticket_count; i++) tickets[i].source = false;
    for (unsigned h = 0; h < CONTAINER_HASH; h++)
        for (const struct container *c = server.containers[h]; c; c = c->next)
            for (unsigned i = 0; i < c->opening_count; i++) source_mark(&c->openings[i].by);
    for (unsigned i = ticket_count; i-- > 0;) {
        struct ticket *t = &tickets[i];
        t->ends = (!process || t->process == process) && !t->source &&
                  KD2(KD_BADGE_USED, server.port, t->number) == 0;
        if (!t->ends) source_mark(&t->by);
    }
    return tickets_remove();
}

static void tickets_look(void)
{
    if (ticket_count < ticket_look) return;
    tickets_forget(0);
    ticket_look = 2 * ticket_count + TICKETS_FEW;
    if (ticket_look > TICKETS_MAX) ticket_look = TICKETS_MAX;
}

/* ticket_same finds the ticket with just these sources; *mine: how many are the process's. */
static const struct ticket *ticket_same(uint64_t process, uint64_t serial,
                                        const struct sources *by, unsigned *mine)
{
    *mine = 0;
    for (unsigned i = 0; i < ticket_count; i++) {
        const struct ticket *t = &tickets[i];
        bool same = t->serial == serial && t->by.count == by->count;
        for (unsigned k = 0; same && k < by->count; k++) same = sources_have(&t->by, by->of[k]);
        if (same) return t;
        *mine += t->process == process;
    }
    return NULL;
}

/* ticket_make makes one for each set of sources: handles reached by the same way share it. */
static int ticket_make(uint64_t process, uint64_t serial, const struct sources *by,
                       uint64_t *number)
{
    unsigned mine;
    tickets_look();
    const struct ticket *same = ticket_same(process, serial, by, &mine);
    if (same) {
        *number = same->number;
        return 0;
    }
    if (mine >= TICKETS_EACH && tickets_forget(process) == 0) return -EMFILE;
    if (ticket_count == TICKETS_MAX) return -EMFILE;
    if (!sources_hold(by)) return -EIDRM; /* the caller closed his handle meanwhile */
    const struct ticket *above = ticket_above(by);
    if (above && above->depth == TICKETS_DEEP) return -EMLINK;
    unsigned depth = above ? above->depth + 1 : 0;
    if (ticket_count == ticket_room) {
        unsigned room = ticket_room ? 2 * ticket_room : 16;
        void *more = realloc(tickets, room * sizeof(*tickets));
        if (!more) return -ENOMEM;
        tickets = more;
        ticket_room = room;
    }
    *number = ++ticket_next;
    tickets[ticket_count++] = (struct ticket){
        .number = *number, .serial = serial, .process = process, .depth = depth, .by = *by};
    return 0;
}

/* ticket_badge makes a badge; the client may pass on his copy only if he asked for that. */
static long ticket_badge(uint64_t process, uint64_t serial, uint32_t rights, uint64_t number)
{
    grant_trace(KD_TRACE_HANDED, process, serial, rights, number);
    return KD3(KD_BADGE_CREATE, server.port, number, rights | KD_RIGHT_CALL | KD_RIGHT_GRANT);
}

long ticket_handle(const struct directory_found *found, const struct sources *by, uint32_t rights)
{
    uint64_t number = 0;
    if (!(rights & DIRECTORY_ALL) || rights & ~(uint32_t)DIRECTORY_ALL) return -EINVAL;
    int r = directory_way_needs(found, found->parts, rights, 0);
    if (r == 0) r = ticket_make(caller.process, found->serial, by, &number);
    return r < 0 ? r : ticket_badge(caller.process, found->serial, rights, number);
}

long ticket_home(uint64_t process, uint64_t container, uint32_t rights)
{
    uint64_t up[DIRECTORY_DEPTH + 1], number = 0;
    if (directory_up(paths, container, up) == 0) return -ENOENT;
    struct sources by = {.of = {DIRECTORY_FIRST | up[0]}, .count = 1};
    int r = ticket_make(process, by.of[0], &by, &number);
    return r < 0 ? r : ticket_badge(process, by.of[0], rights, number);
}

bool ticket_after(uint64_t *number, uint64_t *serial, uint64_t *process)
{
    const struct ticket *t = ticket_from(*number + 1);
    if (!t) return false;
    *number = t->number;
    *serial = t->serial;
    *process = t->process;
    return true;
}

/* links_above: does what is made out of the grant end with all links on the ticket's way? */
static bool links_above(const struct ticket *t, uint64_t serial)
{
    for (; t; t = ticket_above(&t->by))
        for (unsigned i = 0; i < t->by.count; i++) {
            uint64_t source = t->by.of[i];
            bool link = !(source & DIRECTORY_FIRST) && !is_ticket(source);
            if (link && !directory_below(paths, serial, source)) return false;
        }
    return true;
}

int ticket_sent(int handle, struct directory_at *at)
{
    uint64_t badge[2] = {0};
    long r = handle < 0 ? -EINVAL : KD3(KD_BADGE_READ, server.port, handle, badge);
    const struct ticket *t = r < 0 ? NULL : ticket_find(badge[0]);
    if (r < 0 || !t) return r < 0 ? (int)r : -EIDRM;
    return links_above(t, t->serial) ? ticket_at(badge[0], (uint32_t)badge[1], at) : -EMLINK;
}

/* ---- the start ---- */

static void renamed_say(void)
{
    const char *from, *to;
    for (unsigned i = 0; directory_renamed(paths, i, &from, &to); i++)
        say("\"%s\" is now \"%s\": a name has no slash and no colon", from, to);
}

/* paths_mend goes on behind a piece that cannot be mended, now or ever: what is left gives nobody a
 * right, as while the store that left it was running (DG1, DG2), and the next start tries again. */
static int paths_mend(void)
{
    int r = 0, left = 0;
    server_lock();
    while (!server.fenced && (r = directory_mend(paths)) == 0) {
        int committed = change_commit();
        if (committed == 0) renamed_say();
        else left = committed;
    }
    r = server.fenced ? server.fenced : r == -ENOENT ? 0 : r;
    server_unlock();
    if (left < 0) say("directories: some of that is not mended: %s", strerror(-left));
    return r;
}

int paths_open(void)
{
    struct directory_report found;
    int r = directory_open(server.store, &paths, &found);
    if (r < 0 || server.read_only) return r;
    if (found.forged + found.dangling + found.lost)
        say("directories: %llu grants are not sound, %llu entries name nothing, %llu containers "
            "were in none", (unsigned long long)found.forged, (unsigned long long)found.dangling,
            (unsigned long long)found.lost);
    return paths_mend();
}
