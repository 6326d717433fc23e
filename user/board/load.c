/*
 * load.c - reads a board as KiCad writes it, a .kicad_pcb file.
 *
 * The file is lists in lists: (segment (start 1 2) (end 3 4) (width 0.2) (layer "F.Cu") (net 7)).
 * A list is known by the place of its "(". Zones, texts and lines that are not the edge are passed
 * over; a pad of an odd shape becomes the rectangle around its middle.
 */
#include "board.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NETS_MAX = 1 << 16, NAME_BYTES = 250 };
static char *text;
static const char *path;
static struct net *net_by_number[NETS_MAX];
static struct at origin;                                /* where the file's 0, 0 comes to lie */

static _Noreturn void wrong(const char *at, const char *what) {
    int line = 1;
    for (const char *p = text; p < at; p++)
        line += *p == '\n';
    fprintf(stderr, "board: %s:%d: %s\n", path, line, what);
    ps_abort(EINVAL);
}

/* ---- lists ---- */

static const char *blanks(const char *p) { return p + strspn(p, " \t\r\n"); }

/* The end of the word at p; of one in quotes the second of them. */
static const char *word_end(const char *p) {
    if (*p != '"')
        return p + strcspn(p, " \t\r\n()\"");
    for (p++; *p && *p != '"'; p++)
        p += *p == '\\' && p[1];
    return p;
}

/* What follows the word or list at p, without the blanks between. */
static const char *behind(const char *p) {
    int open = 0;
    do {
        open += *p == '(' ? 1 : *p == ')' ? -1 : 0;
        p = strchr("()", *p) ? p : word_end(p) - (*p != '"');
        if (*p == 0)
            wrong(p, "it ends within a list");
        p = blanks(p + 1);
    } while (open > 0);
    return p;
}

/* Item n of a list, 0 is its name; NULL: it has fewer. */
static const char *item(const char *list, int n) {
    const char *p = blanks(list + 1);
    while (n-- > 0 && *p != ')')
        p = behind(p);
    return *p == ')' ? NULL : p;
}

/* The word that item n is, and how long it is; a list, or none, is 0 bytes long. */
static const char *word(const char *list, int n, size_t *bytes) {
    const char *p = list ? item(list, n) : NULL;
    p = p && *p != '(' ? p : "";
    *bytes = (size_t)(word_end(p) - p) - (*p == '"');
    return p + (*p == '"');
}

static int is(const char *list, int n, const char *name) {
    size_t bytes;
    const char *found = word(list, n, &bytes);
    return bytes == strlen(name) && memcmp(found, name, bytes) == 0;
}

/* The list of that name within a list, or NULL. */
static const char *sub(const char *list, const char *name) {
    for (const char *p = item(list, 0); p && *p != ')'; p = behind(p))
        if (*p == '(' && is(p, 0, name))
            return p;
    return NULL;
}

static double number(const char *list, int n) {
    size_t bytes;
    return strtod(word(list, n, &bytes), NULL);         /* none: 0 */
}

static struct at point(const char *list, double x_mm, double y_mm, struct at from) {
    double x = x_mm * MM + from.x, y = y_mm * MM + from.y;
    if (!(fabs(x) <= REACH && fabs(y) <= REACH))
        wrong(list, "a place or size of more than 900 mm, or no number");
    return (struct at){(int32_t)lrint(x), (int32_t)lrint(y)};
}
static struct at place_of(const char *list, const char *name) {
    const char *at = sub(list, name);
    return point(list, number(at, 1), number(at, 2), origin);
}
static int32_t size(const char *list, double mm_) {
    if (mm_ < 0)
        wrong(list, "a size is negative");
    return point(list, mm_, 0, (struct at){0, 0}).x;
}

static uint32_t layers(const char *list) {
    const char *names = sub(list, "layers") ? sub(list, "layers") : sub(list, "layer");
    uint32_t found = 0;
    for (int i = 1; names && item(names, i); i++) {
        const char *name = item(names, i);
        unsigned inner = strncmp(name, "\"In", 3) == 0 ? (unsigned)atoi(name + 3) : 0;
        found |= is(names, i, "*.Cu") || is(names, i, "F&B.Cu") ? UINT32_MAX
                 : is(names, i, "F.Cu")                         ? 1
                 : is(names, i, "B.Cu")                         ? 1u << 31
                 : inner > 0 && inner < 31                      ? 1u << inner
                                                                : 0;
    }
    return found;
}

static struct net *net_of(const char *list) {
    double n = number(sub(list, "net"), 1);
    if (!(n >= 0 && n < NETS_MAX))
        wrong(list, "no such net");
    return net_by_number[(int)n];
}

/* ---- what a board is made of ---- */

/* A part or net, its name, item n of the list, behind the struct. Names of a second board get its
 * number. */
static void *named(const char *list, int n, size_t size, const char *type) {
    char name[NAME_BYTES], number_[16] = "";
    size_t bytes;
    const char *found = word(list, n, &bytes);
    if (board->loads > 1)
        snprintf(number_, sizeof number_, "~%d", board->loads);
    if (snprintf(name, sizeof name, "%.*s%s", (int)bytes, found, number_) >= NAME_BYTES)
        wrong(list, "a name is too long");
    char *object = sure(ps_alloc_as(container, size + strlen(name) + 1, NULL, type));
    return strcpy(object + size, name) - size;
}

static void net_read(const char *list) {
    double n = number(list, 1);
    if (!(n >= 0 && n < NETS_MAX))
        wrong(list, "a net's number is not below 65,536");
    if (is(list, 2, ""))                                /* net 0: not connected */
        return;
    struct net *net = net_by_number[(int)n] = named(list, 2, sizeof *net, "struct net");
    PS_ACCESS(nets_keyed, a, &nets, PS_CHANGE);
    must(nets_insert(&a, net->name, &net));
}

static void line_read(const char *list) {
    struct copper c = {.kind = is(list, 0, "gr_line") ? EDGE : TRACK, .net = net_of(list),
                       .round = size(list, number(sub(list, "width"), 1) / 2),
                       .layers = layers(list)};
    struct at end = place_of(list, "end");
    if (c.kind == EDGE ? !is(sub(list, "layer"), 1, "Edge.Cuts") : !c.layers)
        return;
    c.end[0] = place_of(list, "start");
    if (sub(list, "mid")) {                             /* an arc becomes two lines */
        c.end[1] = place_of(list, "mid");
        copper_new(c);
        c.end[0] = c.end[1];
    }
    c.end[1] = end;
    copper_new(c);
}

static void via_read(const char *list) {
    struct at at = place_of(list, "at");
    uint32_t named_ = layers(list), top = 31 - (uint32_t)__builtin_clz(named_ | 1);
    struct copper c = {.kind = VIA, .net = net_of(list), .end = {at, at},
                       .round = size(list, number(sub(list, "size"), 1) / 2),
                       .layers = (2u << top) - (named_ & -named_)};    /* and those between */
    copper_new(c);
}

/* A place within a part, turned as the part is. */
static struct at turned(const char *list, double x, double y, double degrees, struct at from) {
    double a = degrees * acos(-1) / 180;
    return point(list, x * cos(a) + y * sin(a), y * cos(a) - x * sin(a), from);
}

static void pad_read(const char *list, struct part *part, double degrees) {
    const char *at = sub(list, "at"), *sizes = sub(list, "size");
    double w = number(sizes, 1), h = number(sizes, 2), turn = number(at, 3);
    double ratio = is(list, 3, "circle") || is(list, 3, "oval") ? 0.5
                                                    : number(sub(list, "roundrect_rratio"), 1);
    double round = fmin(w, h) * ratio, x = w - 2 * round, y = h - 2 * round;
    struct copper c = {.kind = PAD, .net = net_of(list), .part = part, .layers = layers(list),
                       .half = size(list, fmin(x, y) / 2), .round = size(list, round)};
    struct at middle = turned(list, number(at, 1), number(at, 2), degrees, part->at);
    size_t bytes;
    const char *name = word(list, 1, &bytes);
    if (is(list, 2, "np_thru_hole") || !c.layers)
        return;                                         /* no copper */
    for (int i = 0; i < 2; i++)
        c.end[i] = turned(list, (i ? 0.5 : -0.5) * fmax(x, y), 0, turn + (y > x ? 90 : 0), middle);
    snprintf(c.pad, sizeof c.pad, "%.*s", bytes < sizeof c.pad ? (int)bytes : 0, name);
    copper_new(c);
}

static void part_read(const char *list) {
    const char *name = list;
    for (const char *p = item(list, 0); *p != ')'; p = behind(p))
        if (*p == '(' && (is(p, 1, "reference") || is(p, 1, "Reference")))
            name = p;
    struct part *part = named(name, 2, sizeof *part, "struct part");
    part->at = place_of(list, "at");
    PS_ACCESS(parts_keyed, a, &parts, PS_CHANGE);
    must(parts_insert(&a, part->name, &part));
    for (const char *p = item(list, 0); *p != ')'; p = behind(p))
        if (*p == '(' && is(p, 0, "pad"))
            pad_read(p, part, number(sub(list, "at"), 3));
}

/* ---- the file ---- */

static int text_read(void) {
    FILE *f = fopen(path, "r");
    long bytes = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    free(text);
    text = bytes >= 0 ? calloc(1, (size_t)bytes + 1) : NULL;
    int error = !text || fseek(f, 0, SEEK_SET) != 0 ||
                fread(text, 1, (size_t)bytes, f) != (size_t)bytes ? errno ? -errno : -EIO : 0;
    if (f)
        fclose(f);
    return error;
}

int load(char **words) {
    static const struct { const char *name; void (*read)(const char *list); } lists[] = {
        {"net", net_read}, {"footprint", part_read}, {"module", part_read}, {"segment", line_read},
        {"arc", line_read}, {"gr_line", line_read}, {"via", via_read}};
    path = words[0];
    int error = text_read();
    if (error)
        return error;
    if (*blanks(text) != '(' || !is(blanks(text), 0, "kicad_pcb"))
        return fprintf(stderr, "board: %s is no board of KiCad's\n", path), 1;
    behind(blanks(text));                               /* all lists have their ends */
    memset(net_by_number, 0, sizeof net_by_number);
    origin = (struct at){0, 0};
    if (words[1])
        origin = point(text, strtod(words[1], NULL), words[2] ? strtod(words[2], NULL) : 0, origin);
    board->loads++;
    for (const char *p = item(blanks(text), 0); *p != ')'; p = behind(p))
        for (unsigned i = 0; *p == '(' && i < sizeof lists / sizeof *lists; i++)
            if (is(p, 0, lists[i].name))
                lists[i].read(p);
    return 0;
}
