/* look.c - what changes nothing: lists, the check of distances, a picture. */
#include "board.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(const struct copper *c, char text[120]) {
    static const char *const kinds[] = {"track", "via", "pad", "edge"};
    const char *net = c->net ? c->net->name : "no net";
    if (c->kind == PAD)
        snprintf(text, 120, "pad %.40s.%s (%.50s)", c->part->name, c->pad, net);
    else
        snprintf(text, 120, "%s %.80s", kinds[c->kind], net);
    return text;
}

static int list_parts(const char *pattern) {
    int found = 0;
    PS_ACCESS(parts_range, r, &parts, NULL, NULL, PS_UP, PS_LOOK);
    for (struct part *const *part; (part = parts_next(&r)) != NULL;) {
        int pads = 0;
        if (fnmatch(pattern, (*part)->name, 0) != 0)
            continue;
        for (const struct copper *pad = (*part)->pads; pad; pad = pad->of_part)
            pads++;
        printf("%-12s at %.3f, %.3f: %d pads\n", (*part)->name, mm((*part)->at.x),
               mm((*part)->at.y), pads);
        found = 1;
    }
    return found ? 0 : -ENOENT;
}

int list(char **words) {
    long count[4] = {0}, part_count = 0, net_count = 0;
    if (words[0])
        return list_parts(words[0]);
    PS_ACCESS(places_range, r, &places, NULL, PS_INTERSECT, PS_LOOK);
    for (struct copper *const *c; (c = places_next(&r)) != NULL;)
        count[(*c)->kind]++;
    PS_ACCESS(parts_range, p, &parts, NULL, NULL, PS_UP, PS_LOOK);
    while (parts_next(&p))
        part_count++;
    PS_ACCESS(nets_range, n, &nets, NULL, NULL, PS_UP, PS_LOOK);
    while (nets_next(&n))
        net_count++;
    printf("%ld parts, %ld pads, %ld tracks, %ld vias, %ld nets\n", part_count, count[PAD],
           count[TRACK], count[VIA], net_count);
    return 0;
}

/* ---- check ---- */

enum { TOLD_MAX = 20 };

/* Of two pieces that are too near to each other, the one at the lower address tells. */
static long check_one(const struct copper *c, double least, long told) {
    char a[120], b[120];
    struct places_box box = box_of(c, least);
    PS_ACCESS(places_range, r, &places, &box, PS_INTERSECT, PS_LOOK);
    for (struct copper *const *found; (found = places_next(&r)) != NULL;) {
        const struct copper *d = *found;
        if (d <= c || !(c->layers & d->layers) || (c->net && c->net == d->net) ||
            (c->part && c->part == d->part))
            continue;
        double distance = gap(c, d);
        if (distance < least && told++ < TOLD_MAX)
            printf("%.3f mm at %.3f, %.3f: %s, %s\n", fmax(0, mm(distance)), mm(c->end[0].x),
                   mm(c->end[0].y), name_of(c, a), name_of(d, b));
    }
    return told;
}

int check(char **words) {
    double least = CLEARANCE;
    long pieces = 0, told = 0;
    if (words[0] && (length_read(words[0], &least) || least <= 0))
        return -EINVAL;
    PS_ACCESS(places_range, r, &places, NULL, PS_INTERSECT, PS_LOOK);
    for (struct copper *const *c; (c = places_next(&r)) != NULL; pieces++)
        told = check_one(*c, least, told);
    printf("%ld pieces, %ld pairs nearer than %.3f mm\n", pieces, told, mm(least));
    return told ? 1 : 0;
}

/* ---- draw ---- */

static const char *const passes[] = {"#4a6fb5", "#8a8a8a", "#c0504d", "#c9a227", "#222"};

/* From the back to the front: back, inner layers, front, what goes through, the edge. */
static int pass_of(const struct copper *c) {
    return c->kind == EDGE           ? 4
           : c->layers & 1 && c->layers >> 31 ? 3
           : c->layers & 1           ? 2
           : c->layers >> 31         ? 0
                                     : 1;
}

static void draw_one(FILE *f, const struct copper *c) {
    double corner[4][2];
    int count = corners(c, corner);
    fprintf(f, "<path stroke-width=\"%.4f\" d=\"M", mm(2.0 * c->round));
    for (int i = 0; i < count; i++)
        fprintf(f, "%.4f %.4f%s", mm(corner[i][0]), mm(corner[i][1]), i + 1 < count ? "L" : "");
    fputs(count == 4 ? "Z\"/>\n" : count == 2 ? "\" fill=\"none\"/>\n" : "h0\"/>\n", f);
}

static void frame(struct places_box *all) {
    *all = (struct places_box){{INFINITY, INFINITY}, {-INFINITY, -INFINITY}};
    PS_ACCESS(places_range, r, &places, NULL, PS_INTERSECT, PS_LOOK);
    while (places_next(&r))
        for (int i = 0; i < 2; i++) {
            all->low[i] = fmin(all->low[i], places_where(&r)->low[i]);
            all->high[i] = fmax(all->high[i], places_where(&r)->high[i]);
        }
}

int draw(char **words) {
    struct places_box all;
    FILE *f = words[0] ? fopen(words[0], "w") : stdout;
    if (!f)
        return -errno;
    frame(&all);
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"%.3f %.3f %.3f %.3f\" "
               "stroke-linecap=\"round\" stroke-linejoin=\"round\">\n",
            mm(all.low[0]) - 1, mm(all.low[1]) - 1, mm(all.high[0] - all.low[0]) + 2,
            mm(all.high[1] - all.low[1]) + 2);
    for (int pass = 0; pass < 5; pass++) {
        fprintf(f, "<g stroke=\"%s\" fill=\"%s\">\n", passes[pass], passes[pass]);
        PS_ACCESS(places_range, r, &places, NULL, PS_INTERSECT, PS_LOOK);
        for (struct copper *const *c; (c = places_next(&r)) != NULL;)
            if (pass_of(*c) == pass)
                draw_one(f, *c);
        fputs("</g>\n", f);
    }
    fputs("</svg>\n", f);
    return (f == stdout ? fflush(f) : fclose(f)) ? -errno : 0;
}
