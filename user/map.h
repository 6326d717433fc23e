/*
 * map.h - a map of the world in a container: coasts, borders and places, in two R*-trees.
 *
 * Everything lies on Mercator's map, x and y in degrees. It keeps angles, so what is nearest on it
 * is nearest on the ground. map.md tells more.
 */
#ifndef USER_MAP_H
#define USER_MAP_H

#include <errno.h>
#include <math.h>
#include <locale.h>
#include <pstore.h>
#include <stdint.h>
#include <stdlib.h>
#include <structures/rtree.h>
#include <structures/vector.h>
#include <wchar.h>

#define MAP_EDGE 180.0  /* of the world on Mercator's map, to the north and south: 85 degrees */

/* A piece of a coast or border: which land is on its left and on its right; 0 is water. */
struct shape { uint16_t left, right, count; struct { float x, y; } at[]; };
struct place { char name[44]; uint32_t people; };
struct land { char name[60]; };
PS_RTREE(shapes, struct shape *, 2);
PS_RTREE(places, struct place, 2);
PS_VECTOR(lands, struct land);
struct map {                            /* the container's root object */
    struct shapes_head shapes;
    struct places_head places;
    struct lands_head lands;            /* land N is the record N - 1 */
    double x, y;                        /* the middle of the view */
    int zoom;                           /* it is 360 degrees / 2^zoom wide */
};

static ps_container *container;
static struct map *map;                 /* this and the next three are set in each transaction */
static struct shapes shapes = {.name = "shapes"};
static struct places places = {.name = "places"};
static struct lands lands = {.name = "lands"};

static inline int map_open(void)
{
    map = ps_root(container);
    if (!map)
        return -errno;
    shapes.head = &map->shapes, places.head = &map->places, lands.head = &map->lands;
    shapes.memory = places.memory = lands.memory = ps_in(container);
    return 0;
}

/* Names are UTF-8. How many bytes the next character has, how many columns it takes; 0: none. */
static inline int letter(const char *at, wchar_t *code, int *columns)
{
    int bytes = mbtowc(code, at, 4);
    *columns = bytes > 0 ? wcwidth(*code) : -1;
    return bytes > 0 && *columns >= 0 ? bytes : 0;
}

static inline double radians(double degrees) { return degrees * M_PI / 180; }

static inline double mercator(double latitude)
{
    double y = log(tan(M_PI / 4 + radians(latitude) / 2)) * 180 / M_PI;
    return y > MAP_EDGE ? MAP_EDGE : y < -MAP_EDGE ? -MAP_EDGE : y;
}

#endif
