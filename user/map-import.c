/*
 * map-import.c - brings a map of the world into the container `map`, in one transaction.
 *
 * The file is text: `land NAME`, the first of them is land 1; `line LEFT RIGHT`, the lands on its
 * two sides, and below it its points, `LONGITUDE LATITUDE` in degrees; `place LONGITUDE LATITUDE
 * PEOPLE NAME`. On the host `make map` makes such a file of the real world.
 */
#include <stdio.h>
#include <string.h>

#include "map.h"

enum { POINTS = 32 };                   /* of a piece; a longer line is several */

static struct input {                   /* set afresh when the transaction runs once more */
    FILE *file;
    int line, lands, lines, shapes, places;
    struct shape *last;
    union { struct shape shape; char room[sizeof(struct shape) + POINTS * 8]; } piece;
} in;

/* What was collected becomes an object near the last one, and its pointer a record of the tree. */
static int piece_end(struct shapes_boxes *a)
{
    const struct shape *piece = &in.piece.shape;
    size_t bytes = sizeof *piece + piece->count * sizeof piece->at[0];
    struct shapes_box box = {{INFINITY, INFINITY}, {-INFINITY, -INFINITY}};
    if (piece->count < 2)
        return 0;
    struct shape *shape = ps_alloc_as(container, bytes, in.last, "struct shape");
    if (!shape)
        return -errno;
    memcpy(shape, piece, bytes);
    for (int i = 0; i < piece->count; i++) {
        float x = piece->at[i].x, y = piece->at[i].y;
        box.low[0] = fmin(box.low[0], x), box.high[0] = fmax(box.high[0], x);
        box.low[1] = fmin(box.low[1], y), box.high[1] = fmax(box.high[1], y);
    }
    in.last = shape;
    in.shapes++;
    return shapes_insert(a, &box, &shape);
}

static int point_add(struct shapes_boxes *a, double x, double y)
{
    struct shape *piece = &in.piece.shape;
    int error = 0;
    if (piece->count == POINTS) {       /* the next piece begins where this one ends */
        error = piece_end(a);
        piece->at[0] = piece->at[POINTS - 1];
        piece->count = 1;
    }
    piece->at[piece->count].x = (float)x, piece->at[piece->count].y = (float)y;
    piece->count++;
    return error;
}

static int line_begin(struct shapes_boxes *a, int left, int right)
{
    int error = piece_end(a);
    in.lines++;
    in.piece.shape = (struct shape){(uint16_t)left, (uint16_t)right, 0};
    return left < 0 || right < 0 || left > in.lands || right > in.lands ? -EINVAL : error;
}

/* A name that did not fit ends behind its last whole character. */
static void cut(char *name)
{
    wchar_t code;
    int columns, bytes;
    while ((bytes = letter(name, &code, &columns)) > 0)
        name += bytes;
    *name = 0;
}

/* What cannot be shown becomes a question mark. */
static void clean(char *text)
{
    wchar_t code;
    int columns, bytes;
    for (; *text && *text != '\n'; text += bytes) {
        bytes = letter(text, &code, &columns);
        if (bytes == 0)
            *text = '?', bytes = 1;
    }
}

/* One line of the file. -EINVAL: it makes no sense. */
static int text_take(const char *text, struct shapes_boxes *s, struct places_boxes *p,
                     struct lands_items *l)
{
    struct land land = {""};
    struct place place = {"", 0};
    double east, north;
    int left, right, end = 0;
    if (sscanf(text, "land %59[^\n]", land.name) == 1) {
        cut(land.name);
        return in.lands++ < UINT16_MAX ? lands_append(l, &land) : -EINVAL;
    }
    if (sscanf(text, "line %d %d %n", &left, &right, &end) == 2 && !text[end])
        return line_begin(s, left, right);
    int is_place = sscanf(text, "place %lf %lf %u %43[^\n]", &east, &north, &place.people,
                          place.name) == 4;
    if (!is_place && (sscanf(text, "%lf %lf %n", &east, &north, &end) != 2 || text[end]))
        return -EINVAL;
    if (!(fabs(east) <= 361) || !(fabs(north) <= 90))   /* so no NaN is let in either */
        return -EINVAL;
    if (!is_place)
        return in.lines ? point_add(s, east, mercator(north)) : -EINVAL;
    in.places++;
    cut(place.name);
    return places_insert(p, &(struct places_box){{east, mercator(north)}, {east, mercator(north)}},
                         &place);
}

static int import(void *file)
{
    char text[256];
    in = (struct input){.file = file};
    rewind(file);
    int error = map_open();
    if (error || (error = shapes_set_up(&shapes)) || (error = places_set_up(&places)) ||
        (error = lands_set_up(&lands)))
        return error;
    PS_ACCESS(shapes_boxes, s, &shapes, PS_CHANGE);
    PS_ACCESS(places_boxes, p, &places, PS_CHANGE);
    PS_ACCESS(lands_items, l, &lands, PS_CHANGE);
    while (error == 0 && fgets(text, sizeof text, file)) {
        in.line++;
        clean(text);
        error = strchr(text, '\n') ? text_take(text, &s, &p, &l) : -EINVAL;
    }
    if (error == 0)
        error = ferror((FILE *)file) ? -EIO : piece_end(&s);
    return error ? error : in.shapes ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
    if (argc != 2 || argv[1][0] == '-') {
        int asked = argc == 2 && strcmp(argv[1], "--help") == 0;
        fputs("map-import FILE\n  Brings a map into the container `map`, for the program map.\n"
              "  On the host `make map` makes such a file, and brings it into the store.\n",
              asked ? stdout : stderr);
        return asked ? 0 : 2;
    }
    setlocale(LC_CTYPE, "C.UTF-8");
    FILE *file = fopen(argv[1], "r");
    if (!file)
        return fprintf(stderr, "map-import: %s: %s\n", argv[1], strerror(errno)), 1;
    container = ps_open("map", PS_WRITE | PS_CREATE, PS_LAYOUT(struct map, 1));
    int error = container ? ps_bulk(container, import, file) : -errno;
    if (error == 0)
        printf("map-import: %d lands, %d pieces of coasts and borders, %d places\n", in.lands,
               in.shapes, in.places);
    else if (error == -EINVAL)
        fprintf(stderr, "map-import: %s, line %d makes no sense; nothing was brought in\n", argv[1],
                in.line ? in.line : 1);
    else if (error == -EEXIST)
        fputs("map-import: there is a map already; for another one: rm-container map\n", stderr);
    else
        fprintf(stderr, "map-import: %s\n", ps_strerror(error));
    return error != 0;
}
