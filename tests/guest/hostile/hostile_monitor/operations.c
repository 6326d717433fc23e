/* operations.c - one random operation: whether it may succeed, and what follows from it. */
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <pstore.h>

static long number_of(const struct held *h) { return h ? h->number : store; }

struct held *some_handle(int actor)
{
    struct held *h = &now.held[actor][below(HANDLES)];
    for (int i = 0; i < HANDLES && !h->used; i++)
        h = &now.held[actor][below(HANDLES)];
    return h->used && (actor || below(3)) ? h : NULL;
}

static struct held *room(int actor)
{
    struct held *h = &now.held[actor][below(HANDLES)];
    for (int i = 0; i < 3 && h->used; i++)
        h = &now.held[actor][below(HANDLES)];
    if (h->used)
        drop(actor, h);
    return h;
}

uint32_t some_rights(void)
{
    uint32_t rights = 0;
    if (below(3))
        return ALL;
    for (int i = 0; i < 5; i++)
        rights |= below(4) ? (uint32_t)R << i : 0;
    return rights | (below(4) ? G : 0);
}

/* An entry of the directory, if there is one. */
static int some_entry(int in)
{
    for (int i = 0, g = (int)below(GRANTS); i < GRANTS; i++, g = (g + 1) % GRANTS)
        if (now.grant[g].live && now.grant[g].in == in)
            return g;
    return NONE;
}

/* Mostly of names that are there. */
static struct way some_way(const struct held *h)
{
    uint64_t which = below(24);
    struct way way = {.parts = which == 0 ? 0 : which < 12 ? 1 : which < 19 ? 2 : 3, .text = ""};
    int at = !h ? 0 : ticket_works(h->ticket) ? now.ticket[h->ticket].grant : NONE;
    for (int i = 0; i < way.parts; i++) {
        at = at == NONE || below(5) == 0 ? NONE : some_entry(now.grant[at].box);
        way.part[i] = at == NONE ? (int)below(NAMES) : now.grant[at].name;
        strcat(strcat(way.text, i ? "/" : ""), names[way.part[i]]);
    }
    return way;
}

/* The same for what is to be made: only its last part is likely to be free. */
struct way some_place(const struct held *h)
{
    struct way way = some_way(h);
    if (way.parts && below(4)) {
        char *last = strrchr(way.text, '/');
        way.part[way.parts - 1] = (int)below(NAMES);
        strcpy(last ? last + 1 : way.text, names[way.part[way.parts - 1]]);
    }
    return way;
}

/* ---- requests ---- */

void request(const struct held *h, uint32_t kind, const char *path)
{
    order(DO_CALL, number_of(h));
    o.kind = kind;
    o.bytes = WIRE_PATH_BYTES;
    strcpy(o.data, path);
}

/* Runs it, and says whether it was done: as the monitor allows. */
static bool done(int actor, const char *what, const char *path, bool may, int error)
{
    run(actor);
    bool did = r.result == 0, dead = error == -EIDRM || error == -EOWNERDEAD;
    if (did != may || (dead && r.result != error))
        wrong(actor, what, path, r.result, may ? 0 : error ? error : -EACCES);
    allowed += did;
    refused += !did;
    return did && may;
}

static struct wire_named *found(void) { return (struct wire_named *)r.data; }

/* A grant is called what it is called from the first time on, and no two are called the same. */
static void learn(int actor, int grant, const struct wire_named *e, const char *path)
{
    struct grant *g = &now.grant[grant];
    struct box *b = &now.box[g->box];
    if (!b->number && g->box) {
        if (e->container <= now.last_number)
            wrong(actor, "an old number", path, (long)e->container, (long)now.last_number);
        b->number = now.last_number = e->container;
    }
    if (!g->serial) {
        g->serial = is_first(grant) ? 1ull << 63 | b->number : e->grant;
        if (!is_first(grant) && g->serial <= now.last_serial)
            wrong(actor, "an old serial", path, (long)g->serial, (long)now.last_serial);
        if (!is_first(grant))
            now.last_serial = g->serial;
    }
    if (e->grant != g->serial)
        wrong(actor, "grant", path, (long)e->grant, (long)g->serial);
    if (e->container != b->number || e->directory != b->is_directory)
        wrong(actor, "container", path, (long)e->container, (long)b->number);
    if (!is_first(grant) && e->made_of != now.grant[g->above].serial)
        wrong(actor, "made of", path, (long)e->made_of, (long)now.grant[g->above].serial);
}

static void look(int actor, const struct held *h, const struct way *way)
{
    struct seen s = walked(h, way);
    request(h, STORE_LOOK, way->text);
    if (!done(actor, "look", way->text, s.error == 0, s.error))
        return;
    learn(actor, s.grant, found(), way->text);
    if (found()->rights != s.rights)
        wrong(actor, "rights of", way->text, found()->rights, s.rights);
}

void op_handle(int actor, const struct held *h)
{
    struct way way = some_way(h);
    uint32_t rights = some_rights();
    struct held *to = room(actor);
    if (to == h)
        return;
    struct seen s = walked(h, &way);
    bool may = s.error == 0 && rights && !(rights & ~s.rights) &&
               !(h && now.ticket[h->ticket].depth >= CHAIN);
    request(h, STORE_HANDLE, way.text);
    o.word[0] = rights;
    if (may && tickets_of(actor) >= TICKETS_EACH)
        return;
    if (!done(actor, "handle", way.text, may, s.error))
        return;
    *to = (struct held){true, r.handle, ticket_for(s.grant, &s.by, actor), WIRE_MAY_ALL & rights};
    if (to->ticket == NONE)
        wrong(actor, "too many tickets", way.text, TICKETS, 0);
    way.parts = 0, way.text[0] = 0;
    if (below(2))
        look(actor, to, &way);
}

static void op_copy(int actor, const struct held *h)
{
    struct held *to = room(actor);
    uint32_t rights = some_rights();
    if (!h || h == to)
        return;
    order(DO_COPY, h->number);
    o.rights = KD_RIGHT_CALL | rights;
    if (!done(actor, "copy", "", !(rights & ~h->rights), 0))
        return;
    *to = *h;
    to->number = r.handle;
    to->rights = rights;
}

/* Into the mail: by a message, from another program. */
static void op_send(int actor, const struct held *h)
{
    uint32_t rights = some_rights();
    if (!h || now.mail.used || actor == 0)
        return;
    order(DO_SEND, h->number);
    o.rights = KD_RIGHT_CALL | rights;
    run(actor);
    bool may = h->rights & G && !(rights & ~h->rights);
    if ((r.handle >= 0) != may)
        wrong(actor, "sent", "", r.handle, may ? 0 : -EACCES);
    if (r.handle >= 0)
        now.mail = (struct held){true, r.handle, h->ticket, rights};
}

/* Out of it, or a handle of this program's own. */
void op_take(int actor)
{
    struct held *from = now.mail.used && below(4) ? &now.mail : some_handle(0);
    uint32_t rights = some_rights();
    struct held *to = actor ? room(actor) : NULL;
    if (!from || !to)
        return;
    order(DO_TAKE, 0);
    tell(actor, from->number, KD_RIGHT_CALL | rights);
    hear(actor);
    bool may = from->rights & G && !(rights & ~from->rights);
    if ((r.handle >= 0) != may)
        wrong(actor, "taken", "", r.handle, may ? 0 : -EACCES);
    if (r.handle >= 0)
        *to = (struct held){true, r.handle, from->ticket, rights};
    if (from == &now.mail)
        drop(0, &now.mail);
}

static void op_make(int actor, const struct held *h)
{
    struct way way = some_place(h);
    struct seen s = walked(h, &way);
    int b = box_free(), g = grant_free();
    if (b == NONE || g == NONE)
        return;
    bool may = s.error == -ENOENT && s.last && s.in_rights & W;
    request(h, STORE_MAKE, way.text);
    if (!done(actor, "make", way.text, may, s.error))
        return;
    now.box[b] = (struct box){.live = true, .is_directory = true};
    now.grant[g] = (struct grant){true, 0, b, NONE, s.in, s.name, ALL};
    look(actor, h, &way);
}

static void opened(int actor, struct seen *s, bool writes)
{
    const struct wire_opened *at = (const struct wire_opened *)r.data;
    struct opening *open = &now.opening[actor][s->box];
    struct box *b = &now.box[s->box];
    b->base = at->base;
    open->count++;
    open->writes |= writes;
    if (!b->number) {
        now.last_number = b->number = at->container;
        now.grant[s->grant].serial = 1ull << 63 | b->number;
    }
    if (at->container != b->number)
        wrong(actor, "opened", "", (long)at->container, (long)b->number);
}

static void op_open(int actor, const struct held *h, bool make)
{
    struct way way = make ? some_place(h) : some_way(h);
    struct seen s = walked(h, &way);
    bool writes = below(2), is_new = make && s.error == -ENOENT && s.last && s.in_rights & W;
    int b = box_free(), g = grant_free();
    if (is_new && (b == NONE || g == NONE))
        return;
    bool may = is_new || (s.error == 0 && !now.box[s.box].is_directory && s.rights & R &&
                          (!writes || s.rights & W));
    if (may && !is_new) {
        struct by all = now.opening[actor][s.box].by;
        may = by_add(&all, &s.by);      /* more than six grants: -EMLINK, and no right is lost */
    }
    if (way.parts == 0 && !h)
        may = false;
    order(DO_CALL, number_of(h));
    o.kind = STORE_OPEN;
    o.bytes = sizeof(struct wire_open) + WIRE_PATH_BYTES;
    ((struct wire_open *)o.data)->flags = (make ? PS_CREATE : 0) | (writes ? PS_WRITE : 0);
    strcpy(o.data + sizeof(struct wire_open), way.text);
    if (!done(actor, make ? "create" : "open", way.text, may, s.error))
        return;
    if (is_new) {
        now.box[b] = (struct box){.live = true};
        now.grant[g] = (struct grant){true, 0, b, NONE, s.in, s.name, ALL};
        s.grant = g;
        s.box = b;
        by_add(&s.by, &(struct by){{g}, 1, false});
    }
    by_add(&now.opening[actor][s.box].by, &s.by);
    opened(actor, &s, writes);
}

/* What is open, by its number, and by its address in the kernel; and closed, perhaps. */
static void op_probe(int actor, const struct held *h)
{
    int b = 1 + (int)below(BOXES - 1);
    struct opening *open = &now.opening[actor][b];
    if (!now.box[b].live || now.box[b].is_directory || !now.box[b].number || !now.box[b].base)
        return;
    bool works = !h || ticket_works(h->ticket);
    int error = works ? -EACCES : now.ticket[h->ticket].lost ? -EOWNERDEAD : -EIDRM;
    order(DO_MAPPED, 0);
    o.word[0] = now.box[b].base;
    run(actor);
    uint64_t rights = open->count ? KD_RIGHT_READ | (open->writes ? KD_RIGHT_WRITE : 0) : 0;
    if (actor && r.word[0] != rights)   /* this process may have objects of a dead manager's */
        wrong(actor, "mapped", "", (long)r.word[0], (long)rights);
    uint32_t kind = below(2) ? STORE_NEXT : below(2) ? STORE_LEASE : STORE_CLOSE;
    order(DO_CALL, number_of(h));
    o.kind = kind;
    o.word[0] = now.box[b].number;
    o.word[1] = kind == STORE_LEASE;
    bool may = works && open->count && (kind != STORE_LEASE || open->writes);
    if (done(actor, "by its number", "", may, error) && kind == STORE_CLOSE && --open->count == 0)
        *open = (struct opening){.count = 0};
}

static void op_link(int actor, const struct held *h)
{
    const struct held *of = some_handle(actor);
    for (int i = 0; i < 4 && of && !(of->rights & G && ticket_works(of->ticket)); i++)
        of = some_handle(actor);
    struct way way = some_place(h);
    struct seen s = walked(h, &way);
    uint32_t rights = some_rights();
    int g = grant_free();
    if (!of || g == NONE)
        return;
    bool may = ticket_works(of->ticket) && of->rights & G && rights && !(rights & ~of->rights) &&
               s.error == -ENOENT && s.last && s.in_rights & W && link_ends(of->ticket);
    int above = may ? now.ticket[of->ticket].grant : NONE;
    may = may && depth_of(above) < GRANT_DEPTH;
    request(h, STORE_LINK, way.text);
    o.word[0] = rights;
    o.with = of->number;
    o.rights = KD_RIGHT_CALL | rights | G;
    if (!done(actor, "link", way.text, may, s.error))
        return;
    now.grant[g] = (struct grant){true, 0, now.grant[above].box, above, s.in, s.name, rights};
    look(actor, h, &way);
}

static void op_unlink(int actor, const struct held *h)
{
    struct way way = some_way(h);
    struct seen s = walked(h, &way);
    bool may = s.error == 0 && s.in != NONE && s.in_rights & W && !is_first(s.grant) &&
               (!has_children(s.grant) || s.rights & M);
    request(h, STORE_UNLINK, way.text);
    if (done(actor, "unlink", way.text, may, s.error))
        grants_end(s.grant, true);
}

static void op_take_back(int actor, const struct held *h)
{
    struct way way = some_way(h);
    struct seen s = walked(h, &way);
    request(h, STORE_TAKE_BACK, way.text);
    bool may = s.error == 0 && s.in != NONE && s.rights & M;
    if (!done(actor, "take back", way.text, may, s.error))
        return;
    handles_end(s.grant);
    grants_end(s.grant, false);
}

static void op_move(int actor, const struct held *h)
{
    struct way from = some_way(h), to = some_place(h);
    struct seen s = walked(h, &from), t = walked(h, &to);
    bool may = s.error == 0 && s.in != NONE && to.parts, same = strcmp(from.text, to.text) == 0;
    if (may && !same) {
        bool stays = t.error == 0 && t.in == s.in && t.name == s.name;
        may = s.in_rights & N && (stays || (t.error == -ENOENT && t.last));
        if (may && t.in != s.in)
            may = t.in_rights & W && !((now.grant[s.grant].rights | G) & ~s.rights);
        if (may && is_first(s.grant) && now.box[s.box].is_directory)
            may = !lies_in(t.in, s.box);
    }
    request(h, STORE_RENAME, from.text);
    o.bytes = 2 * WIRE_PATH_BYTES;
    strcpy(o.data + WIRE_PATH_BYTES, to.text);
    if (!done(actor, "rename", from.text, may, s.error) || same)
        return;
    now.grant[s.grant].in = t.in;
    now.grant[s.grant].name = t.name;
}

/* Of who ended, the manager hears when it hears it: until then a container is busy. */
static void op_delete(int actor, const struct held *h)
{
    struct way way = some_way(h);
    struct seen s = walked(h, &way);
    bool may = s.error == 0 && s.in != NONE && s.box && s.in_rights & s.rights & D &&
               !box_has_entries(s.box) && !opened_beside(s.box, actor);
    if (may && now.box[s.box].ghost)
        return;
    request(h, STORE_DELETE, way.text);
    if (done(actor, "delete", way.text, may, s.error))
        box_end(s.box);
}

/* ---- lists ---- */

/* All entries of a directory are there, with their rights on this way, and no others. */
static int listed(int actor, const struct held *h, const char *path, const struct seen *s)
{
    int count = 0, wanted = 0;
    uint64_t cursor = 0;
    do {
        request(h, STORE_ENTRIES, path);
        o.word[0] = cursor;
        run(actor);
        if (r.result)
            return (int)r.result;
        cursor = r.word[0];
        for (uint32_t i = 0; i < r.bytes / sizeof *found(); i++, count++) {
            const struct wire_named *e = &found()[i];
            int g = 0;
            while (g < GRANTS && !(now.grant[g].live && g && now.grant[g].in == s->box &&
                                   strcmp(names[now.grant[g].name], e->name) == 0))
                g++;
            if (g == GRANTS)
                return -ENOENT;
            if (e->rights != (now.grant[g].rights & s->rights) ||
                e->directory != now.box[now.grant[g].box].is_directory ||
                (now.grant[g].serial && e->grant != now.grant[g].serial))
                return -EILSEQ;
            learn(actor, g, e, path);
        }
    } while (cursor);
    for (int g = 1; g < GRANTS; g++)
        wanted += now.grant[g].live && now.grant[g].in == s->box;
    return count == wanted ? 0 : -ENODATA;
}

static void op_list(int actor, const struct held *h)
{
    struct way way = some_way(h);
    struct seen s = walked(h, &way);
    bool may = s.error == 0 && now.box[s.box].is_directory && s.rights & R;
    if (may) {
        int e = listed(actor, h, way.text, &s);
        if (e)
            wrong(actor, "list", way.text, e, 0);
        return;
    }
    request(h, STORE_ENTRIES, way.text);
    (void)done(actor, "list", way.text, false, s.error);
}

/* The path of a directory's first entries. */
static void home(int box, char path[WIRE_PATH_BYTES])
{
    int g = first_of(box);
    char rest[WIRE_PATH_BYTES];
    for (path[0] = 0; box; g = first_of(box)) {
        strcpy(rest, path);
        strcpy(path, names[now.grant[g].name]);
        strcat(strcat(path, rest[0] ? "/" : ""), rest);
        box = now.grant[g].in;
    }
}

/* 0: what the store has is what the monitor has. */
int compared(void)
{
    char path[WIRE_PATH_BYTES];
    for (int b = 0; b < BOXES; b++) {
        struct seen s = {.box = b, .rights = ALL};
        if (!now.box[b].live || !now.box[b].is_directory)
            continue;
        home(b, path);
        int parts = 1;
        for (const char *at = path; (at = strchr(at, '/')); at++)
            parts++;
        int e = parts > 16 ? 0 : listed(0, NULL, path, &s);
        if (e)
            return e;
    }
    return 0;
}

void compare(void)
{
    int e = compared();
    if (e)
        wrong(0, "all directories", "", e, 0);
}

/* ---- forgeries ---- */

static void op_forge(int actor, const struct held *h)
{
    struct way way = some_way(h);
    uint64_t number = below(3) ? 1ull << 62 | below(4000) : 1ull << 63 | below(64);
    request(h, STORE_LINK, way.text);
    o.what = DO_FORGE;
    o.word[0] = R;
    o.word[1] = number;
    o.rights = KD_RIGHT_CALL | R | G;
    struct seen s = walked(h, &way);
    (void)done(actor, "a badge of its own port", way.text, false, s.error);
    long none = 200 + (long)below(56);
    order(DO_CALL, below(2) ? none : -1 - none);
    o.kind = STORE_LOOK;
    o.bytes = WIRE_PATH_BYTES;
    (void)done(actor, "a handle that is not there", "", false, 0);
    if (r.result != -EBADF)
        wrong(actor, "a handle that is not there", "", r.result, -EBADF);
}

/* ---- any of them ---- */

void operate(int actor, const struct held *h)
{
    switch (below(28)) {
    case 0: case 1: case 2: {
        struct way way = some_way(h);
        look(actor, h, &way);
        break;
    }
    case 3: case 4: case 5: op_handle(actor, h); break;
    case 6: op_copy(actor, h); break;
    case 7: case 8: op_send(actor, h); break;
    case 9: case 10: op_take(actor); break;
    case 11: op_make(actor, h); break;
    case 12: op_open(actor, h, true); break;
    case 13: case 14: op_open(actor, h, false); break;
    case 15: case 16: case 17: op_probe(actor, h); break;
    case 18: case 19: case 20: case 21: op_link(actor, h); break;
    case 22: op_unlink(actor, h); break;
    case 23: op_take_back(actor, h); break;
    case 24: op_move(actor, h); break;
    case 25: if (below(2)) op_delete(actor, h); break;
    case 26: op_list(actor, h); break;
    default: op_forge(actor, h);
    }
}
