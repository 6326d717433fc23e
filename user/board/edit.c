/* edit.c - the changes: parts are moved and their tracks follow; tracks are taken out and laid. */
#include "board.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void place(struct copper *c) {
    PS_ACCESS(places_boxes, a, &places, PS_CHANGE);
    struct places_box box = box_of(c, 0);
    must(places_insert(&a, &box, &c));
}

void displace(struct copper *c) {
    struct places_box box = box_of(c, 0);
    PS_ACCESS(places_range, r, &places, &box, PS_CONTAIN, PS_CHANGE);
    struct copper *const *found;
    do
        found = places_next(&r);
    while (found && *found != c);
    must(found ? places_drop(&r) : -EUCLEAN);
}

struct copper *copper_new(struct copper values) {
    struct copper *near = values.part ? values.part->pads : NULL;
    struct copper *c = sure(ps_new_in(board->copper, struct copper, near));
    *c = values;
    if (c->net)
        c->of_net = c->net->first, c->net->first = c;
    if (c->part)
        c->of_part = c->part->pads, c->part->pads = c;
    place(c);
    return c;
}

/* ---- move ---- */

/* The ends that go along with a moved part: those of its pads, and what ends in one of them. */
static struct { struct { struct copper *copper; int end; } *end; int count, room; } held;

static int is_held(const struct copper *c, int end) {
    int i = held.count;
    while (i > 0 && (held.end[i - 1].copper != c || held.end[i - 1].end != end))
        i--;
    return i > 0;
}

static void hold(struct copper *c, int end) {
    if (is_held(c, end))
        return;
    if (held.count == held.room) {
        held.room += 256;
        held.end = sure(realloc(held.end, (size_t)held.room * sizeof *held.end));
    }
    held.end[held.count].copper = c;
    held.end[held.count++].end = end;
}

static void hold_pad(struct copper *pad) {
    struct places_box box = box_of(pad, 0);
    PS_ACCESS(places_range, r, &places, &box, PS_INTERSECT, PS_LOOK);
    for (struct copper *const *c; (c = places_next(&r)) != NULL;)
        for (int i = 0; (*c)->net && (*c)->net == pad->net && i < 2; i++) {
            struct copper end = {.end = {(*c)->end[i], (*c)->end[i]}};
            if ((*c)->kind != PAD && (*c)->layers & pad->layers && gap(pad, &end) <= 0)
                hold(*c, i);
        }
    hold(pad, 0);
    hold(pad, 1);
}

/* All that is held, each once. */
static void held_each(void (*what)(struct copper *c)) {
    for (int i = 0; i < held.count; i++)
        if (held.end[i].end == 0 || !is_held(held.end[i].copper, 0))
            what(held.end[i].copper);
}

/* A mouse drags a part in many small steps: each is some stores, and none is a message. */
static void drag(struct part *part, int64_t x, int64_t y, int64_t steps) {
    held.count = 0;
    for (struct copper *pad = part->pads; pad; pad = pad->of_part)
        hold_pad(pad);
    held_each(displace);
    for (int64_t step = 1; step <= steps; step++) {
        int32_t dx = (int32_t)(x * step / steps - x * (step - 1) / steps);
        int32_t dy = (int32_t)(y * step / steps - y * (step - 1) / steps);
        part->at.x += dx, part->at.y += dy;
        for (int i = 0; i < held.count; i++) {
            struct at *end = &held.end[i].copper->end[held.end[i].end];
            end->x += dx, end->y += dy;
        }
    }
    held_each(place);
}

/* What follows the parts that are held: ends of tracks and vias. */
static int held_beside(void) {
    int count = 0;
    for (int i = 0; i < held.count; i++)
        count += held.end[i].copper->kind != PAD;
    return count;
}

int length_read(const char *word, double *length) {
    char *end;
    *length = strtod(word, &end) * MM;
    return end == word || *end || !(fabs(*length) <= REACH) ? -EINVAL : 0;
}

int move(char **words) {
    double x, y;
    long steps = words[3] ? strtol(words[3], NULL, 10) : 1, moved = 0, follow = 0;
    if (length_read(words[1], &x) || length_read(words[2], &y) || steps < 1 || steps > 1000000)
        return -EINVAL;
    PS_ACCESS(parts_range, r, &parts, NULL, NULL, PS_UP, PS_LOOK);
    for (struct part *const *part; (part = parts_next(&r)) != NULL;) {
        if (fnmatch(words[0], (*part)->name, 0) != 0)
            continue;
        if (fabs((*part)->at.x + x) > REACH || fabs((*part)->at.y + y) > REACH) {
            fprintf(stderr, "board: %s would be farther than 900 mm\n", (*part)->name);
            ps_abort(EINVAL);
        }
        drag(*part, llrint(x), llrint(y), steps);
        moved++, follow += held_beside();
    }
    if (moved)
        printf("parts moved: %ld; ends of tracks and vias that follow: %ld\n", moved, follow);
    return moved ? 0 : -ENOENT;
}

/* ---- rip, route ---- */

static int rip_net(struct net *net) {
    int count = 0;
    for (struct copper **at = &net->first, *c; (c = *at) != NULL;) {
        if (c->kind == PAD) {
            at = &c->of_net;
            continue;
        }
        displace(c);
        *at = c->of_net;
        must(ps_free(c));
        count++;
    }
    return count;
}

int rip(char **words) {
    int found = 0, pieces = 0;
    PS_ACCESS(nets_range, r, &nets, NULL, NULL, PS_UP, PS_LOOK);
    for (struct net *const *net; (net = nets_next(&r)) != NULL;)
        if (fnmatch(words[0], (*net)->name, 0) == 0)
            pieces += rip_net(*net), found = 1;
    if (found)
        printf("tracks and vias taken out: %d\n", pieces);
    return found ? 0 : -ENOENT;
}

/* The pad of a name like PART.PAD; NULL with a message. */
static struct copper *pad_find(char *name) {
    char *point = strrchr(name, '.');
    if (point)
        *point = 0;
    PS_ACCESS(parts_keyed, a, &parts, PS_LOOK);
    struct part *const *part = parts_find(&a, name);
    struct copper *pad = part && point ? (*part)->pads : NULL;
    while (pad && strcmp(pad->pad, point + 1) != 0)
        pad = pad->of_part;
    if (!pad)
        fprintf(stderr, "board: %s has no pad %s\n", name, point ? point + 1 : "(write PART.PAD)");
    return pad;
}

static int is_free(const struct copper *way) {
    struct places_box box = box_of(way, CLEARANCE);
    PS_ACCESS(places_range, r, &places, &box, PS_INTERSECT, PS_LOOK);
    for (struct copper *const *c; (c = places_next(&r)) != NULL;)
        if ((*c)->layers & way->layers && (*c)->net != way->net && gap(*c, way) < CLEARANCE)
            return 0;
    return 1;
}

static struct at centre(const struct copper *c) {
    return (struct at){(int32_t)((c->end[0].x + (int64_t)c->end[1].x) / 2),
                       (int32_t)((c->end[0].y + (int64_t)c->end[1].y) / 2)};
}

/* Lays a track over those three points, if it is free. */
static int lay(struct net *net, const struct at *point, uint32_t layer) {
    struct copper way[2];
    for (int i = 0; i < 2; i++) {
        way[i] = (struct copper){.kind = TRACK, .net = net, .round = WIDTH / 2, .layers = layer,
                                 .end = {point[i], point[i + 1]}};
        if (!is_free(&way[i]))
            return 0;
    }
    for (int i = 0; i < 2; i++)
        if (memcmp(&way[i].end[0], &way[i].end[1], sizeof way[i].end[0]) != 0)
            copper_new(way[i]);
    return 1;
}

int route(char **words) {
    struct copper *a = pad_find(words[0]), *b = a ? pad_find(words[1]) : NULL;
    if (!b)
        return 1;
    if (!a->net || a->net != b->net)
        return fprintf(stderr, "board: these pads are of different nets\n"), 1;
    struct at from = centre(a), to = centre(b);
    struct at corner[] = {to, {from.x, to.y}, {to.x, from.y}};
    for (int layer = 0; layer <= 31; layer += 31)
        for (int i = 0; i < 3 && a->layers & b->layers & 1u << layer; i++)
            if (lay(a->net, (struct at[]){from, corner[i], to}, 1u << layer))
                return printf("a track is laid, %s, on the %s\n", i ? "with a corner" : "straight",
                              layer ? "back" : "front"), 0;
    return fprintf(stderr, "board: no straight way and no way with one corner is free\n"), 1;
}
