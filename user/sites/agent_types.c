/*
 * agent_types.c - descriptions of types, and pages converted by them (agent_types.h).
 *
 * Not here  what is kept of the pages of a site (agent_convert.c). The slots of a page are read
 *           with functions of this file alone: those of libpstore (slot.h) know a page by where it
 *           lies, and these pages are copies.
 */
#include "agent_types.h"

#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "slot.h"

/* ---- texts ---- */

struct line { const char *at, *end; };

static bool line_next(struct line *text, struct line *line)
{
    if (text->at == text->end) return false;
    const char *newline = memchr(text->at, '\n', (size_t)(text->end - text->at));
    *line = (struct line){text->at, newline ? newline : text->end};
    text->at = newline ? newline + 1 : text->end;
    return true;
}

/* The next word, up to a space; false: there is none, or it does not fit. */
static bool word_take(struct line *l, char *word, size_t room)
{
    size_t n = 0;
    while (l->at < l->end && *l->at == ' ') l->at++;
    while (l->at < l->end && *l->at != ' ') {
        if (n + 1 == room || *l->at < '!' || *l->at > '~') return false;
        word[n++] = *l->at++;
    }
    word[n] = 0;
    return n > 0;
}

/* All words that are left, with one space between them. */
static bool rest_take(struct line *l, char *text, size_t room)
{
    size_t n = 0;
    char word[TYPE_NAME_BYTES];
    while (l->at < l->end && *l->at == ' ') l->at++;
    for (; l->at < l->end; n += strlen(word)) {
        if (!word_take(l, word, sizeof word) || n + 1 + strlen(word) >= room) return false;
        if (n) text[n++] = ' ';
        memcpy(text + n, word, strlen(word));
        while (l->at < l->end && *l->at == ' ') l->at++;
    }
    text[n] = 0;
    return n > 0;
}

/* False: no number of at most 4,096. */
static bool number_read(const char *word, uint32_t *number)
{
    *number = 0;
    for (const char *c = word; *c; c++) {
        if (*c < '0' || *c > '9') return false;
        *number = *number * 10 + (uint32_t)(*c - '0');
        if (*number > TYPES_PAGE_BYTES) return false;
    }
    return *word != 0;
}

static bool kind_read(struct type_field *f, char *word)
{
    static const struct { char name[5], class; uint8_t width; } kinds[] = {
        {"char", 'c', 1}, {"i8", 'i', 1},  {"i16", 'i', 2}, {"i32", 'i', 4}, {"i64", 'i', 8},
        {"u8", 'u', 1},   {"u16", 'u', 2}, {"u32", 'u', 4}, {"u64", 'u', 8}, {"f32", 'f', 4},
        {"f64", 'f', 8},  {"ptr", 'p', 8}};
    char *star = strchr(word, '*');
    f->count = 1;
    if (star && (!number_read(star + 1, &f->count) || f->count == 0)) return false;
    if (star) *star = 0;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, word)) continue;
        f->class = (uint8_t)kinds[i].class;
        f->width = kinds[i].width;
        return true;
    }
    return false;
}

static int type_named(const struct types *t, const char *name)
{
    for (unsigned i = 0; i < t->types; i++)
        if (!strcmp(t->type[i].name, name)) return (int)i;
    return -1;
}

static int field_named(const struct types *t, const struct type *type, const char *name)
{
    for (unsigned i = type->first; i < type->first + type->fields; i++)
        if (!strcmp(t->field[i].name, name)) return (int)i;
    return -1;
}

static bool type_add(struct types *t, struct line *l)
{
    struct type *type = &t->type[t->types];
    char bytes[8];
    if (t->types == TYPES_MAX || !word_take(l, bytes, sizeof bytes)) return false;
    *type = (struct type){.first = t->fields, .other = -1};
    if (!number_read(bytes, &type->bytes) || type->bytes == 0) return false;
    if (!rest_take(l, type->name, sizeof type->name)) return false;
    type->number = slot_type_of(type->name);
    for (unsigned i = 0; i < t->types; i++)
        if (t->type[i].number == type->number) return false;
    t->types++;
    return true;
}

static bool name_add(struct types *t, struct line *l)
{
    struct type_name *n = &t->name[t->names];
    char type[TYPE_NAME_BYTES];
    if (t->names == TYPE_NAMES_MAX || !word_take(l, n->name, sizeof n->name)) return false;
    if (!rest_take(l, type, sizeof type) || type_named(t, type) < 0) return false;
    n->number = SLOT_TYPE_NAME | slot_type_of(n->name);
    n->type = (unsigned)type_named(t, type);
    for (unsigned i = 0; i < t->names; i++)
        if (t->name[i].number == n->number) return false;
    t->names++;
    return true;
}

static bool overlap(const struct type_field *a, const struct type_field *b)
{
    return a->offset < b->offset + b->count * b->width &&
           b->offset < a->offset + a->count * a->width;
}

static bool field_add(struct types *t, const char *offset, struct line *l)
{
    struct type *type = t->types ? &t->type[t->types - 1] : NULL;
    struct type_field *f = &t->field[t->fields];
    char kind[24];
    if (!type || t->fields == TYPE_FIELDS_MAX) return false;
    *f = (struct type_field){.other = -1};
    if (!number_read(offset, &f->offset) || !word_take(l, kind, sizeof kind)) return false;
    if (!kind_read(f, kind) || !rest_take(l, f->name, sizeof f->name)) return false;
    if (f->offset + f->count * f->width > type->bytes || field_named(t, type, f->name) >= 0)
        return false;
    for (unsigned i = type->first; i < t->fields; i++)
        if (overlap(f, &t->field[i])) return false;
    t->fields++;
    type->fields++;
    return true;
}

static bool line_read(struct types *t, struct line *l, bool first)
{
    char word[16], order[8];
    if (!word_take(l, word, sizeof word)) return l->at == l->end && !first; /* an empty line */
    if (first) {
        if (strcmp(word, "order") || !word_take(l, order, sizeof order)) return false;
        t->big = !strcmp(order, "big");
        return (t->big || !strcmp(order, "little")) && l->at == l->end;
    }
    if (!strcmp(word, "type")) return type_add(t, l);
    if (!strcmp(word, "name")) return name_add(t, l);
    return field_add(t, word, l);
}

unsigned types_parse(struct types *t, const char *text, size_t bytes)
{
    struct line all = {text, text + bytes}, l;
    unsigned number = 0;
    memset(t, 0, sizeof *t);
    if (bytes > TYPES_TEXT_MAX) return 1;
    while (line_next(&all, &l))
        if (!line_read(t, &l, ++number == 1)) return number;
    return number && t->types ? 0 : number + 1;
}

/* ---- two descriptions ---- */

static bool convertible(const struct type_field *a, const struct type_field *b)
{
    bool numbers = (a->class == 'i' || a->class == 'u') && (b->class == 'i' || b->class == 'u');
    return numbers || a->class == b->class;
}

/* The first type or name of `a` that `b` has not, or has otherwise. */
static const char *match(struct types *a, const struct types *b)
{
    for (struct type *type = a->type; type < a->type + a->types; type++) {
        type->other = type_named(b, type->name);
        if (type->other < 0) return type->name;
        for (unsigned i = type->first; i < type->first + type->fields; i++) {
            struct type_field *f = &a->field[i];
            f->other = (int16_t)field_named(b, &b->type[type->other], f->name);
            if (f->other >= 0 && !convertible(f, &b->field[f->other])) return type->name;
        }
    }
    for (const struct type_name *n = a->name; n < a->name + a->names; n++) {
        const struct type_name *o = b->name;
        while (o < b->name + b->names && o->number != n->number) o++;
        if (o == b->name + b->names || strcmp(a->type[n->type].name, b->type[o->type].name))
            return n->name;
    }
    return NULL;
}

int types_match(struct types_pair *p, char refused[TYPE_NAME_BYTES])
{
    const char *name = match(&p->home, &p->site);
    if (!name) name = match(&p->site, &p->home);
    if (!name) return 0;
    snprintf(refused, TYPE_NAME_BYTES, "%s", name);
    return -EPROTOTYPE;
}

/* ---- fields ---- */

static uint64_t bytes_get(const uint8_t *at, unsigned width, bool big)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < width; i++) v = v << 8 | at[big ? i : width - 1 - i];
    return v;
}

static void bytes_put(uint8_t *at, unsigned width, bool big, uint64_t v)
{
    for (unsigned i = 0; i < width; i++, v >>= 8) at[big ? width - 1 - i : i] = (uint8_t)v;
}

/* A whole number of a class and width: with all its sign bits. */
static uint64_t extended(uint64_t v, const struct type_field *f)
{
    unsigned unused = 64 - 8 * f->width;
    return f->class == 'i' ? (uint64_t)((int64_t)(v << unused) >> unused) : v;
}

static uint64_t real_put(double v, unsigned width)
{
    uint64_t bits = 0;
    if (width == 8) {
        memcpy(&bits, &v, 8);
    } else {
        bool in = v >= -(double)FLT_MAX && v <= (double)FLT_MAX;
        float beyond = v > 0 ? __builtin_inff() : v < 0 ? -__builtin_inff() : __builtin_nanf("");
        float f = in ? (float)v : beyond;
        memcpy(&bits, &f, 4);
    }
    return bits;
}

static double real_get(uint64_t bits, unsigned width)
{
    double d;
    float f;
    if (width == 8) {
        memcpy(&d, &bits, 8);
        return d;
    }
    memcpy(&f, &bits, 4);
    return (double)f;
}

/* One number: 0 or -EOVERFLOW. A real that is too large for the other's kind is infinite there. */
static int number_convert(const struct type_field *from, const uint8_t *at, bool at_big,
                          const struct type_field *to, uint8_t *put, bool put_big)
{
    uint64_t v = bytes_get(at, from->width, at_big);
    if (from->class == 'f' && from->width != to->width)
        v = real_put(real_get(v, from->width), to->width);
    if (from->class == 'i' || from->class == 'u') {
        v = extended(v, from);
        uint64_t low = to->width == 8 ? v : v & ((1ull << 8 * to->width) - 1);
        bool negative = from->class == 'i' && (int64_t)v < 0;
        bool negative_there = to->class == 'i' && (int64_t)extended(low, to) < 0;
        if (extended(low, to) != v || negative != negative_there) return -EOVERFLOW;
    }
    bytes_put(put, to->width, put_big, v);
    return 0;
}

/* All of a field: what the other side has fewer of is left out, what it has more of is 0. */
static int field_convert(const struct type_field *from, const uint8_t *at, bool at_big,
                         const struct type_field *to, uint8_t *put, bool put_big)
{
    int error = 0;
    memset(put, 0, (size_t)to->count * to->width);
    for (uint32_t i = 0; !error && i < from->count && i < to->count; i++)
        error = number_convert(from, at + i * from->width, at_big, to, put + i * to->width,
                               put_big);
    return error;
}

/* ---- pages ---- */

struct object { unsigned start, units; uint32_t type; };
struct objects { unsigned count; size_t area; struct object at[SLOT_COUNT_MAX]; };

static bool is_zero(const uint8_t *page)
{
    static const uint8_t zeros[TYPES_PAGE_BYTES];
    return memcmp(page, zeros, sizeof zeros) == 0;
}

/* The objects of a page; count 0 and area 0: it is not used. 0 or -errno. */
static int objects_of(uint64_t at, const uint8_t *page, struct objects *o)
{
    struct slot_page head;
    uint32_t number = (uint32_t)(at / TYPES_PAGE_BYTES);
    uint8_t used[SLOT_UNITS] = {0};
    memcpy(&head, page, sizeof head);
    o->count = 0;
    o->area = 0;
    if (head.seal == 0) return 0;
    bool marked = head.seal == (SLOT_SEAL_MARKED ^ number);
    if (!marked && head.seal != (SLOT_SEAL ^ number)) return -EOPNOTSUPP;
    size_t begin = marked ? sizeof(struct slot_page_marked) : sizeof head;
    size_t each = marked ? sizeof(struct slot_marked) : sizeof(struct slot);
    o->area = begin + head.slots * each;
    if (head.slots > SLOT_COUNT_MAX || o->area > TYPES_PAGE_BYTES) return -EUCLEAN;
    memset(used, 1, (o->area + SLOT_UNIT_BYTES - 1) / SLOT_UNIT_BYTES);
    for (unsigned i = 0; i < head.slots; i++) {
        const uint8_t *slot = page + begin + i * each;
        struct object b = {.start = slot[0], .units = slot[1]};
        if (b.units == 0) continue;
        if (b.units == SLOT_RUNS_ON) return -EOPNOTSUPP;
        if (marked) memcpy(&b.type, slot + 2, sizeof b.type);
        if (b.start + b.units > SLOT_UNITS || memchr(used + b.start, 1, b.units)) return -EUCLEAN;
        memset(used + b.start, 1, b.units);
        o->at[o->count++] = b;
    }
    return 0;
}

/* What the library keeps for itself looks the same everywhere. */
static bool is_library(uint32_t type)
{
    return type == SLOT_TYPE_ARENA || type == (SLOT_TYPE_NAME | slot_type_of("\2congeries")) ||
           type == (SLOT_TYPE_NAME | slot_type_of("\6types"));
}

static const struct type *type_of(const struct types *t, uint32_t number)
{
    for (unsigned i = 0; i < t->types; i++)
        if (t->type[i].number == number) return &t->type[i];
    for (unsigned i = 0; i < t->names; i++)
        if (t->name[i].number == number) return &t->type[t->name[i].type];
    return NULL;
}

/* How many of the type lie one behind the other in the object; 0: not even one. An object that may
 * have been made for one alone is one; arrays are of types that are as long at both sides. */
static unsigned elements(const struct object *o, const struct type *home, const struct type *site)
{
    unsigned bytes = o->units * SLOT_UNIT_BYTES;
    if (home->bytes > bytes || site->bytes > bytes) return 0;
    if (home->bytes == site->bytes) return bytes / home->bytes;
    unsigned longer = home->bytes > site->bytes ? home->bytes : site->bytes;
    return bytes - longer < SLOT_UNIT_BYTES ? 1 : 0;
}

static int object_out(const struct types_pair *p, const struct object *o, const uint8_t *home,
                      uint8_t *site)
{
    const struct type *h = type_of(&p->home, o->type);
    const struct type *s = h ? &p->site.type[h->other] : NULL;
    unsigned n = h ? elements(o, h, s) : 0;
    int error = n ? 0 : -EPROTOTYPE;
    for (unsigned k = 0; k < n; k++)
        for (unsigned i = h->first; !error && i < h->first + h->fields; i++) {
            const struct type_field *f = &p->home.field[i];
            const struct type_field *to = f->other < 0 ? NULL : &p->site.field[f->other];
            if (!to) continue;
            error = field_convert(f, home + k * h->bytes + f->offset, p->home.big, to,
                                  site + k * s->bytes + to->offset, p->site.big);
        }
    return error;
}

int types_out(const struct types_pair *p, uint64_t at, const uint8_t *home, uint8_t *site,
              uint32_t *type)
{
    struct objects o;
    int error = objects_of(at, home, &o);
    *type = 0;
    memset(site, 0, TYPES_PAGE_BYTES);
    if (!error && o.area == 0 && !is_zero(home)) error = -EOPNOTSUPP;
    if (error) return error;
    memcpy(site, home, o.area);
    for (unsigned i = 0; !error && i < o.count; i++) {
        const struct object *b = &o.at[i];
        size_t offset = (size_t)b->start * SLOT_UNIT_BYTES;
        if (is_library(b->type))
            memcpy(site + offset, home + offset, (size_t)b->units * SLOT_UNIT_BYTES);
        else
            error = object_out(p, b, home + offset, site + offset);
        if (error) *type = b->type;
    }
    return error;
}

/* Of an element that the site has not changed the home's value stays, which may be a finer one. */
static int element_in(const struct types_pair *p, const struct type_field *h, uint8_t *home,
                      const struct type_field *s, const uint8_t *site)
{
    uint8_t seen[8];
    if (number_convert(h, home, p->home.big, s, seen, p->site.big) == 0 &&
        memcmp(seen, site, s->width) == 0)
        return 0;
    return number_convert(s, site, p->site.big, h, home, p->home.big);
}

static int field_in(const struct types_pair *p, const struct type_field *h, uint8_t *home,
                    const uint8_t *site)
{
    const struct type_field *s = &p->site.field[h->other];
    int error = 0;
    for (uint32_t i = 0; !error && i < h->count && i < s->count; i++)
        error = element_in(p, h, home + i * h->width, s, site + i * s->width);
    for (uint32_t i = h->count * s->width; !error && i < s->count * s->width; i++)
        if (site[i]) error = -EOVERFLOW;
    return error;
}

static int object_in(const struct types_pair *p, const struct object *o, uint8_t *home,
                     const uint8_t *site)
{
    const struct type *h = type_of(&p->home, o->type);
    const struct type *s = h ? &p->site.type[h->other] : NULL;
    unsigned n = h ? elements(o, h, s) : 0;
    int error = n ? 0 : -EPROTOTYPE;
    for (unsigned k = 0; k < n; k++)
        for (unsigned i = h->first; !error && i < h->first + h->fields; i++) {
            const struct type_field *f = &p->home.field[i];
            if (f->other < 0) continue;
            error = field_in(p, f, home + k * h->bytes + f->offset,
                             site + k * s->bytes + p->site.field[f->other].offset);
        }
    return error;
}

/* The object as it was before: the same place and type. Its bytes behind what it then had are 0. */
static void object_keep(const struct objects *was, const uint8_t *before, const struct object *o,
                        uint8_t *home)
{
    size_t offset = (size_t)o->start * SLOT_UNIT_BYTES, bytes = o->units * SLOT_UNIT_BYTES;
    memset(home + offset, 0, bytes);
    for (unsigned i = 0; i < was->count; i++) {
        const struct object *b = &was->at[i];
        if (b->start != o->start || b->type != o->type) continue;
        unsigned units = b->units < o->units ? b->units : o->units;
        memcpy(home + offset, before + offset, (size_t)units * SLOT_UNIT_BYTES);
    }
}

int types_in(const struct types_pair *p, uint64_t at, const uint8_t *before, const uint8_t *site,
             uint8_t *home, uint32_t *type)
{
    struct objects was, is;
    int error = objects_of(at, before, &was);
    *type = 0;
    if (!error) error = objects_of(at, site, &is);
    if (error) return error;
    memset(home, 0, TYPES_PAGE_BYTES);
    memcpy(home, site, is.area);
    for (unsigned i = 0; !error && i < is.count; i++) {
        const struct object *b = &is.at[i];
        size_t offset = (size_t)b->start * SLOT_UNIT_BYTES;
        object_keep(&was, before, b, home);
        if (is_library(b->type))
            memcpy(home + offset, site + offset, (size_t)b->units * SLOT_UNIT_BYTES);
        else
            error = object_in(p, b, home + offset, site + offset);
        if (error) *type = b->type;
    }
    return error;
}
