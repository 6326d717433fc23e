/*
 * map.c - a map of the world in the terminal, and drawn as SVG.
 *
 * Each picture is a transaction: the view is moved, what lies in it is found and painted. So where
 * the view was last is in the container, and the program has nothing to save.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "map.h"
#include "terminal.h"

enum { ZOOM_MAX = 14, NAMES_MAX = 40, SVG_WIDTH = 1000, SVG_HEIGHT = 800 };

/* ---- what is where ---- */

static double latitude(double y) { return (2 * atan(exp(radians(y))) - M_PI / 2) * 180 / M_PI; }

/* How many metres a degree of the map is on the ground. */
static double metres(double y) { return cos(radians(latitude(y))) * 6371000 * M_PI / 180; }

/* The land at a point: going north from there, the first line that is crossed knows it. */
static const char *land_at(double x, double y)
{
    double first = INFINITY;
    int number = 0;
    for (double at = x; at <= x + 360; at += 360) {     /* a few lines go on beyond 180 degrees */
        PS_ACCESS(shapes_range, r, &shapes, (&(struct shapes_box){{at, y}, {at, MAP_EDGE}}),
                  PS_INTERSECT, PS_LOOK);
        for (struct shape *const *found; (found = shapes_next(&r));)
            for (int i = 1; i < (*found)->count; i++) {
                double x0 = (*found)->at[i - 1].x, y0 = (*found)->at[i - 1].y;
                double x1 = (*found)->at[i].x, y1 = (*found)->at[i].y;
                double cross = y0 + (y1 - y0) * (at - x0) / (x1 - x0);
                if ((x0 <= at) != (x1 <= at) && cross > y && cross < first) {
                    first = cross;
                    number = x0 < x1 ? (*found)->right : (*found)->left;
                }
            }
    }
    PS_ACCESS(lands_items, l, &lands, PS_LOOK);
    const struct land *land = number ? lands_get(&l, (uint64_t)number - 1) : NULL;
    return land ? land->name : "water";
}

/* The nearest place, also across the date line, and how many degrees away. NULL: there is none. */
static const struct place *place_near(double x, double y, double *away)
{
    const struct place *best = NULL;
    for (int turn = -360; turn <= 360; turn += 360) {
        PS_ACCESS(places_near, n, &places, ((double[]){x + turn, y}), PS_LOOK);
        const struct place *place = places_nearest(&n);
        if (place && (!best || sqrt(places_squared(&n)) < *away))
            best = place, *away = sqrt(places_squared(&n));
    }
    return best;
}

/* The view goes to the largest place of that name. All are looked at: that takes no index. */
static int place_find(const char *name)
{
    uint32_t most = 0;
    int found = 0;
    PS_ACCESS(places_range, r, &places, NULL, PS_INTERSECT, PS_LOOK);
    for (const struct place *place; (place = places_next(&r));)
        if (strcasecmp(place->name, name) == 0 && (!found || place->people > most)) {
            found = 1, most = place->people;
            map->x = places_where(&r)->low[0], map->y = places_where(&r)->low[1];
        }
    return found ? 0 : -ENOENT;
}

/* ---- a picture: its lines and its names ---- */

struct pen {
    int width, height, letter[2], names;        /* in dots; how many names at most */
    double x, y, dot;                   /* the north-western corner; how many degrees a dot is */
    void (*shape)(const struct pen *, const struct shape *, double turn);
    void (*name)(const struct pen *, double x, double y, const char *name); /* x, y: in dots */
};
static int is_larger(const struct places_box *at, const struct place *place, void *least)
{
    (void)at;
    return place->people > *(uint32_t *)least;
}

struct name { struct place place; double x, y, end; int hidden; };

static int columns_of(const char *name)
{
    wchar_t code;
    int sum = 0, columns, bytes;
    for (; (bytes = letter(name, &code, &columns)) > 0; name += bytes)
        sum += columns;
    return sum;
}

/* The largest first; one that would lie over an earlier one, or be cut off, is left out. */
static void paint_names(const struct pen *pen, struct name *top, int count)
{
    for (struct name *n = top; n < top + count; n++) {
        n->x = (n->x - pen->x) / pen->dot, n->y = (pen->y - n->y) / pen->dot;
        n->end = n->x + (double)(columns_of(n->place.name) + 3) * pen->letter[0];
        n->hidden = n->end >= pen->width || n->y >= pen->height;
        for (struct name *other = top; other < n && !n->hidden; other++)
            n->hidden = !other->hidden && fabs(n->y - other->y) < pen->letter[1] &&
                        n->x < other->end && other->x < n->end;
        if (!n->hidden)
            pen->name(pen, n->x, n->y, n->place.name);
    }
}

static void find_names(const struct pen *pen, const struct shapes_box *view)
{
    static struct name top[NAMES_MAX + 1];
    uint32_t least = 0;
    int count = 0;
    for (int turn = -360; turn <= 360; turn += 360) {
        struct places_box box = {{view->low[0] - turn, view->low[1]},
                                 {view->high[0] - turn, view->high[1]}};
        PS_ACCESS(places_range, r, &places, &box, PS_CONTAIN, PS_LOOK);
        places_filter(&r, is_larger, &least);
        for (const struct place *place; (place = places_next(&r));) {
            int i = count;
            for (; i > 0 && top[i - 1].place.people < place->people; i--)
                top[i] = top[i - 1];
            top[i].place = *place;
            top[i].x = places_where(&r)->low[0] + turn, top[i].y = places_where(&r)->low[1];
            count += count < pen->names;
            least = count == pen->names ? top[count - 1].place.people : 0;
        }
    }
    paint_names(pen, top, count);
}

static void paint(struct pen *pen)
{
    pen->dot = 360 / pow(2, map->zoom) / pen->width;
    pen->x = map->x - pen->dot * pen->width / 2;
    pen->y = map->y + pen->dot * pen->height / 2;
    struct shapes_box view = {{pen->x, pen->y - pen->dot * pen->height},
                              {pen->x + pen->dot * pen->width, pen->y}};
    for (int turn = -720; turn <= 360; turn += 360) {
        struct shapes_box box = {{view.low[0] - turn, view.low[1]},
                                 {view.high[0] - turn, view.high[1]}};
        PS_ACCESS(shapes_range, r, &shapes, &box, PS_INTERSECT, PS_LOOK);
        for (struct shape *const *shape; (shape = shapes_next(&r));)
            pen->shape(pen, *shape, turn);
    }
    find_names(pen, &view);
}

/* ---- on the screen: a character has two by four dots, which Unicode has as Braille ---- */

static uint8_t dots[TERMINAL_ROWS_MAX][TERMINAL_COLUMNS_MAX];
/* Letters, over the dots; a wide one has a second cell. */
enum { SECOND = 1 };
static wchar_t cells[TERMINAL_ROWS_MAX][TERMINAL_COLUMNS_MAX];

static void dot(int x, int y)
{
    static const uint8_t bit[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    dots[y / 4][x / 2] |= bit[y % 4][x % 2];
}

/* Shortens the part [*from, *to] of a line, at + part * by, to what lies between 0 and size. */
static void clip(double at, double by, double size, double *from, double *to)
{
    double a = -at / by, b = (size - at) / by;
    if (by == 0 && (at < 0 || at > size))
        *to = -1;
    if (by != 0)
        *from = fmax(*from, fmin(a, b)), *to = fmin(*to, fmax(a, b));
}

static void screen_shape(const struct pen *pen, const struct shape *s, double turn)
{
    for (int i = 1; i < s->count; i++) {
        double x = (s->at[i - 1].x + turn - pen->x) / pen->dot;
        double y = (pen->y - s->at[i - 1].y) / pen->dot;
        double dx = (s->at[i].x - s->at[i - 1].x) / pen->dot;
        double dy = (s->at[i - 1].y - s->at[i].y) / pen->dot, from = 0, to = 1;
        clip(x, dx, pen->width - 0.01, &from, &to);
        clip(y, dy, pen->height - 0.01, &from, &to);
        double steps = ceil(fmax(fabs(dx), fabs(dy)) * (to - from)) + 1;
        for (double k = 0; from <= to && k <= steps; k++) {
            int at_x = (int)(x + dx * (from + (to - from) * k / steps));
            int at_y = (int)(y + dy * (from + (to - from) * k / steps));
            if (!s->left || !s->right || (at_x + at_y) % 2 == 0)        /* a border is dotted */
                dot(at_x, at_y);
        }
    }
}

static void screen_name(const struct pen *pen, double x, double y, const char *name)
{
    wchar_t *at = &cells[(int)y / 4][(int)x / 2], code;
    int columns, bytes;
    (void)pen;
    *at++ = 'o', *at++ = ' ';
    for (; (bytes = letter(name, &code, &columns)) > 0; name += bytes) {
        if (columns > 0)                /* an accent by itself has no cell */
            *at++ = code;
        if (columns > 1)
            *at++ = SECOND;
    }
}

static void say_where(double dot)
{
    double away = 0, north = latitude(map->y), km = dot * metres(map->y) / 1000;
    const struct place *near = place_near(map->x, map->y, &away);
    say("+ %.2f %c %.2f %c, %s", fabs(north), north < 0 ? 'S' : 'N', fabs(map->x),
        map->x < 0 ? 'W' : 'E', land_at(map->x, map->y));
    if (near)
        say(", %.1f km to %s (%u)", away * metres(map->y) / 1000, near->name, near->people);
    say(". Zoom %d, %.*f km a dot", map->zoom, km < 10, km);
}

static void paint_screen(int rows, int columns)
{
    const char *end = terminal.is_one ? "\x1b[K\r\n" : "\n";
    struct pen pen = {.width = columns * 2, .height = (rows - 2) * 4, .shape = screen_shape,
                      .names = NAMES_MAX / 2, .name = screen_name, .letter = {2, 4}};
    memset(dots, 0, sizeof dots);
    memset(cells, 0, sizeof cells);
    paint(&pen);
    cells[(rows - 2) / 2][columns / 2] = '+';
    say("%s", terminal.is_one ? "\x1b[H" : "");
    for (int row = 0; row < rows - 2; row++) {
        for (int column = 0; column < columns; column++) {
            wchar_t cell = cells[row][column];
            unsigned d = dots[row][column];
            if (cell != SECOND)
                say("%lc", cell ? (wint_t)cell : d ? 0x2800 + d : ' ');
        }
        say("%s", end);
    }
    size_t begin = picture.used;
    say_where(pen.dot);
    if (terminal.is_one && picture.used > begin + (size_t)columns - 1)
        picture.used = begin + (size_t)columns - 1;
    if (terminal.is_one)
        say("%s%.*s\x1b[K", end, columns - 1,
            "arrows move, + and - zoom, 0 is the world, q leaves");
    else
        say("\n");
}

/* ---- as SVG ---- */

static void svg_shape(const struct pen *pen, const struct shape *s, double turn)
{
    say("<path class='%s' d='M", s->left && s->right ? "border" : "coast");
    for (int i = 0, last = 0; i < s->count; i++) {
        double away = fabs(s->at[i].x - s->at[last].x) + fabs(s->at[i].y - s->at[last].y);
        if (i > 0 && i < s->count - 1 && away < pen->dot)
            continue;                   /* nobody would see it */
        say(" %.1f %.1f", (s->at[i].x + turn - pen->x) / pen->dot,
            (pen->y - s->at[i].y) / pen->dot);
        last = i;
    }
    say("'/>\n");
}

static void svg_name(const struct pen *pen, double x, double y, const char *name)
{
    (void)pen;
    say("<circle cx='%.1f' cy='%.1f' r='2'/><text x='%.1f' y='%.1f'>", x, y, x + 4, y + 4);
    for (; *name; name++)
        say(*name == '<' || *name == '&' ? "&#%d;" : "%c", *name);
    say("</text>\n");
}

static void paint_svg(void)
{
    struct pen pen = {.width = SVG_WIDTH, .height = SVG_HEIGHT, .names = NAMES_MAX,
                      .shape = svg_shape, .name = svg_name, .letter = {7, 12}};
    say("<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d'>\n"
        "<style>path { fill: none; stroke: #246 } text { font: 11px sans-serif }\n"
        ".border { stroke: #b85; stroke-dasharray: 4 3 }</style>\n"
        "<rect width='100%%' height='100%%' fill='#f4f8fb'/>\n", SVG_WIDTH, SVG_HEIGHT);
    paint(&pen);
    say("</svg>\n");
}

/* ---- the view ---- */

struct wish { const char *place, *svg; double north, east; int key, zoom, moves, zooms; };

static void view_move(int key)
{
    double step = 45 / pow(2, map->zoom);
    map->x += key == KEY_RIGHT ? step : key == KEY_LEFT ? -step : 0;
    map->y += key == KEY_UP ? step / 2 : key == KEY_DOWN ? -step / 2 : 0;
    map->zoom += key == '+' || key == '=' ? 1 : key == '-' ? -1 : 0;
    if (key == '0')
        map->zoom = 0, map->x = map->y = 0;
    map->x -= 360 * floor((map->x + 180) / 360);
    map->y = fmax(-MAP_EDGE, fmin(MAP_EDGE, map->y));
    map->zoom = map->zoom < 0 ? 0 : map->zoom > ZOOM_MAX ? ZOOM_MAX : map->zoom;
}

/* The transaction of each picture. It may run twice, so the picture begins empty. */
static int look(void *arg)
{
    const struct wish *wish = arg;
    picture.used = 0;
    int error = map_open();
    PS_ACCESS(lands_items, l, &lands, PS_LOOK);
    if (error || (error = (int)lands_count(&l)) < 0)    /* -ENODATA: none was set up */
        return error;
    if (wish->place && (error = place_find(wish->place)))
        return error;
    if (wish->moves)
        map->x = wish->east, map->y = mercator(wish->north);
    if (wish->zooms)
        map->zoom = wish->zoom;
    view_move(wish->key);
    if (wish->svg)
        paint_svg();
    else
        paint_screen(terminal.rows, terminal.columns);
    return 0;
}

/* Where the view is matters too little to wait for the disk: the commit is lazy. */
static int show(struct wish *wish)
{
    int error = ps_transaction_opt(look, wish, &(struct ps_options){.lazy = 1});
    if (error || !wish->svg) {
        terminal_write(picture.text, error ? 0 : picture.used);
        return error;
    }
    FILE *file = fopen(wish->svg, "w");
    int written = file && fwrite(picture.text, 1, picture.used, file) == picture.used;
    if (file && fclose(file) == 0 && written)
        return 0;
    fprintf(stderr, "map: %s: %s\n", wish->svg, strerror(errno));
    exit(1);
}

static int interact(struct wish *wish)
{
    terminal_begin();
    int error = show(wish);
    while (error == 0 && (wish->key = terminal_wait()) != KEY_END && wish->key != 'q' &&
           wish->key != CTRL('C'))
        error = show(wish);
    terminal_end();
    return error;
}

static int reads_at(struct wish *wish, const char *value)
{
    int end = 0;
    return sscanf(value, "%lf,%lf%n", &wish->north, &wish->east, &end) == 2 && !value[end] &&
           fabs(wish->north) <= 90 && fabs(wish->east) <= 180;
}

static int reads_zoom(struct wish *wish, const char *value)
{
    int end = 0;
    return sscanf(value, "%d%n", &wish->zoom, &end) == 1 && !value[end] && wish->zoom >= 0 &&
           wish->zoom <= ZOOM_MAX;
}

/* 0: it makes no sense, and that was said. Else how many words it took. */
static int option(struct wish *wish, const char *word, const char *value)
{
    const char *wants = NULL;
    if (*word != '-') {
        wants = wish->place ? "there is one PLACE only; a name with spaces stands in quotes" : NULL;
        wish->place = word;
    } else if (strcmp(word, "--svg") == 0) {
        wants = value ? NULL : "takes a FILE";
        wish->svg = value;
    } else if (strcmp(word, "--at") == 0) {
        wish->moves = value && reads_at(wish, value);
        wants = wish->moves ? NULL : "takes LATITUDE,LONGITUDE in degrees, such as 47.4,8.5";
    } else if (strcmp(word, "--zoom") == 0) {
        wish->zooms = value && reads_zoom(wish, value);
        wants = wish->zooms ? NULL : "takes a number from 0 to 14";
    } else {
        wants = "no such option; map --help lists them";
    }
    if (wants)
        fprintf(stderr, "map: %s: %s\n", word, wants);
    return wants ? 0 : 1 + (*word == '-');
}

static const char help[] =
    "map [PLACE] [--at LATITUDE,LONGITUDE] [--zoom 0..14] [--svg FILE]\n"
    "  A map of the world. At a terminal arrows move, + and - zoom, 0 is the world, q\n"
    "  leaves; the next time it goes on there. With options, or without a terminal, it\n"
    "  prints one screen or writes a drawing. `make map` on the host brings the map.\n";

int main(int argc, char **argv)
{
    struct wish wish = {.key = 0};
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return fputs(help, stdout), 0;
    for (int i = 1, taken; i < argc; i += taken)
        if ((taken = option(&wish, argv[i], argv[i + 1])) == 0)
            return 2;
    setlocale(LC_CTYPE, "C.UTF-8");
    terminal.rows = 24, terminal.columns = 80;
    container = ps_open("map", PS_WRITE, PS_LAYOUT(struct map, 1));
    int error = !container                  ? -errno
                : argc == 1 && isatty(0)    ? interact(&wish)
                                            : show(&wish);
    if (error && container && wish.place && error == -ENOENT)
        fprintf(stderr, "map: %s: no place of that name\n", wish.place);
    else if (error == -ENOENT || error == -ENODATA)
        fputs("map: there is no map yet: `make map` on the host, or map-import FILE\n", stderr);
    else if (error)
        fprintf(stderr, "map: %s\n", ps_strerror(error));
    return error != 0;
}
