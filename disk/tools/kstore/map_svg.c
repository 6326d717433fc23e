/*
 * map_svg.c - draws a map: five figures in one SVG, each with its legend, and tooltips (title).
 *
 * Lengths are in pixels of a page of WIDTH; each figure is given its top and returns its bottom.
 */
#include "map.h"

#include <math.h>
#include <string.h>

#define WIDTH        1200.0
#define MARGIN       24.0
#define INNER        (WIDTH - 2 * MARGIN)
#define META_COLUMNS 128u

/* ---- small things */

static void escaped(FILE *out, const char *text, size_t most)
{
    for (size_t i = 0; i < most && text[i]; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '<' || c == '>' || c == '&' || c == '"' || c < ' ' || c > '~')
            fprintf(out, "&#%u;", c < ' ' ? 0xfffdu : c);
        else
            fputc(c, out);
    }
}

/* Hues a golden section apart: neighbours in the list are far apart in colour. Red is for
 * damage. */
static void owner_colour(uint64_t object, int lightness, char colour[32])
{
    double hue = 32 + fmod(110 + (double)(object % 1000) * 0.381966 * 268, 268);
    snprintf(colour, 32, "hsl(%.0f,58%%,%d%%)", hue, lightness);
}

/* From dark blue (old) to yellow (new). */
static void age_colour(const struct map *map, uint64_t lsn, char colour[32])
{
    uint64_t range = map->newest_lsn - map->oldest_lsn;
    double part = range && lsn > map->oldest_lsn ? (double)(lsn - map->oldest_lsn) / (double)range
                                                 : range ? 0 : 1;
    snprintf(colour, 32, "rgb(%.0f,%.0f,%.0f)", 38 + part * 215, 42 + part * 164, 110 - part * 64);
}

static void label(FILE *out, double x, double y, const char *class, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">%s</text>\n", x, y, class, text);
}

static const struct kcontainer *owner_of(const struct map *map, uint64_t object)
{
    return kmodel_container(&map->view->model, object);
}

/* ---- figure 1: the disk to scale */

struct part { const char *name, *class; uint64_t start, bytes; };

static void part_draw(FILE *out, const struct map *map, const struct part *part, double y)
{
    char bytes[32];
    double scale = INNER / (double)map->view->super.disk_bytes;
    double x = MARGIN + (double)part->start * scale, width = (double)part->bytes * scale;
    width = width < 2.5 ? 2.5 : width;
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"34\" class=\"%s\"><title>%s: "
            "%s from byte %llu</title></rect>\n", x, y, width, part->class, part->name,
            size_text(part->bytes, bytes), (unsigned long long)part->start);
    if (width > 7.5 * (double)strlen(part->name) + 8)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"in\">%s</text>\n", x + width / 2, y + 22,
                part->name);
}

static double disk_draw(FILE *out, const struct map *map, double y)
{
    const struct kslot *s = &map->view->super;
    uint64_t area = kslot_map_bytes(s->area_pages) + (uint64_t)s->area_pages * BLOCK_BYTES;
    const struct part parts[] = {
        { "log", "log", s->log_start, s->log_bytes },
        { "area 0", "meta", s->area_start[0], area }, { "area 1", "meta", s->area_start[1], area },
        { "extents", "data", s->data_start, s->extents * s->extent_bytes },
        { "superblock A", map->view->slots[0].state == KSLOT_VALID ? "slot" : "bad", 0,
          BLOCK_BYTES },
        { "superblock B", map->view->slots[1].state == KSLOT_VALID ? "slot" : "bad",
          s->slot_b_offset, BLOCK_BYTES },
    };
    label(out, MARGIN, y, "h", "The disk, to scale");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        part_draw(out, map, &parts[i], y + 12);
    double b = MARGIN + (double)s->slot_b_offset * INNER / (double)s->disk_bytes;
    label(out, MARGIN, y + 62, "s", "A");
    label(out, b, y + 62, "s", "B");
    return y + 92;
}

/* ---- figure 2: the log, a ring */

static void ring_point(double angle, double radius, double cx, double cy, double point[2])
{
    point[0] = cx + radius * sin(angle);
    point[1] = cy - radius * cos(angle);
}

/* [from, from + bytes) of the ring, between two radii. */
static void arc_draw(FILE *out, const struct map *map, uint64_t from, uint64_t bytes,
                     const double centre[2], double inner, double outer, const char *class)
{
    double ring = (double)map->view->super.log_bytes, p[4][2];
    double a = 2 * M_PI * (double)(from % map->view->super.log_bytes) / ring;
    double sweep = 2 * M_PI * (double)bytes / ring;
    sweep = sweep > 6.28 ? 6.28 : sweep < 0.004 ? 0.004 : sweep;
    int large = sweep > M_PI;
    ring_point(a, outer, centre[0], centre[1], p[0]);
    ring_point(a + sweep, outer, centre[0], centre[1], p[1]);
    ring_point(a + sweep, inner, centre[0], centre[1], p[2]);
    ring_point(a, inner, centre[0], centre[1], p[3]);
    fprintf(out,
            "<path class=\"%s\" d=\"M%.2f %.2fA%.1f %.1f 0 %d 1 %.2f %.2fL%.2f %.2fA%.1f %.1f 0 "
            "%d 0 %.2f %.2fZ\">",
            class, p[0][0], p[0][1], outer, outer, large, p[1][0], p[1][1], p[2][0], p[2][1], inner,
            inner, large, p[3][0], p[3][1]);
}

static void mark_draw(FILE *out, const struct map *map, uint64_t lsn, const double centre[2],
                      double reach, const char *class, const char *text)
{
    double p[3][2], ring = (double)map->view->super.log_bytes;
    double a = 2 * M_PI * (double)(lsn % map->view->super.log_bytes) / ring;
    ring_point(a, 88, centre[0], centre[1], p[0]);
    ring_point(a, reach, centre[0], centre[1], p[1]);
    ring_point(a, reach + 9, centre[0], centre[1], p[2]);
    fprintf(out,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"><title>%s: LSN "
            "%llu</title></line>\n",
            p[0][0], p[0][1], p[1][0], p[1][1], class, text, (unsigned long long)lsn);
    const char *anchor = sin(a) < -0.2 ? "end" : sin(a) > 0.2 ? "start" : "middle";
    double y = p[2][1] + 4;
    for (const char *line = text; *line; y += 13) {  /* a line for each, so that it is not wide */
        int bytes = (int)strcspn(line, ",");
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"m\" text-anchor=\"%s\">%.*s</text>\n",
                p[2][0], y, anchor, bytes, line);
        line += bytes + strspn(line + bytes, ", ");
    }
}

static void groups_draw(FILE *out, const struct map *map, const double centre[2])
{
    const struct kview *view = map->view;
    uint32_t each = view->group_count / 400 + 1;
    for (uint32_t i = 0; i < view->group_count; i += each) {
        uint32_t last = i + each < view->group_count ? i + each - 1 : view->group_count - 1;
        const struct kgroup *from = &view->groups[i], *to = &view->groups[last];
        arc_draw(out, map, from->lsn, to->lsn + to->bytes - from->lsn, centre, 92, 118,
                 i / each % 2 ? "g1" : "g0");
        fprintf(out, "<title>%u group%s from LSN %llu to %llu, epoch %u</title></path>\n",
                last - i + 1, last > i ? "s" : "", (unsigned long long)from->lsn,
                (unsigned long long)(to->lsn + to->bytes), from->epoch);
    }
}

/* Marks at one place share a label. */
static void marks_draw(FILE *out, const struct map *map, const double centre[2])
{
    const struct kcheckpoint *c = map->view->super.checkpoints;
    uint32_t newest = map->view->super.newest;
    const struct { uint64_t lsn; const char *text; } marks[] = {
        { c[!newest].redo_lsn, "older redo" }, { c[newest].redo_lsn, "redo (tail)" },
        { map->view->result.end_lsn, "end (head)" },
    };
    uint64_t near = map->view->super.log_bytes / 16;    /* lines of text apart */
    for (int i = c[!newest].redo_lsn ? 0 : 1, next; i < 3; i = next) {
        char text[80];
        snprintf(text, sizeof text, "%s", marks[i].text);
        for (next = i + 1; next < 3 && marks[next].lsn - marks[i].lsn <= near; next++)
            snprintf(text + strlen(text), sizeof text - strlen(text), ", %s", marks[next].text);
        mark_draw(out, map, marks[next - 1].lsn, centre, 132 + 8 * i,
                  map->view->result.damage_lsn && next == 3 ? "markbad" : "mark", text);
    }
}

static void ring_notes(FILE *out, const struct map *map, double x, double y)
{
    const struct kview *view = map->view;
    const struct kslot *s = &view->super;
    const struct kcheckpoint *newest = &s->checkpoints[s->newest],
                             *older = &s->checkpoints[!s->newest];
    char line[200], a[32], b[32];
    snprintf(line, sizeof line, "ring of %s; %s to replay in %llu groups, %llu transactions",
             size_text(s->log_bytes, a),
             size_text(view->result.end_lsn > view->result.redo_lsn
                           ? view->result.end_lsn - view->result.redo_lsn : 0, b),
             (unsigned long long)view->result.groups,
             (unsigned long long)view->result.transactions);
    label(out, x, y, "n", line);
    snprintf(line, sizeof line,
             "newest checkpoint, area %u: redo LSN %llu, scan LSN %llu, %u pages", s->newest,
             (unsigned long long)newest->redo_lsn, (unsigned long long)newest->scan_lsn,
             newest->pages);
    label(out, x, y + 22, "n", line);
    if (older->redo_lsn) {
        snprintf(line, sizeof line, "older checkpoint, area %u: redo LSN %llu, scan LSN %llu, %u "
                 "pages", !s->newest, (unsigned long long)older->redo_lsn,
                 (unsigned long long)older->scan_lsn, older->pages);
        label(out, x, y + 44, "n", line);
    }
    snprintf(line, sizeof line, "end of the log: LSN %llu%s; epoch %u",
             (unsigned long long)view->result.end_lsn,
             view->result.torn_tail ? ", then a torn group" : "",
             s->epochs[s->epoch_count - 1].epoch);
    label(out, x, y + 66, "n", line);
    if (view->result.damage_lsn) {
        snprintf(line, sizeof line, "what was committed from LSN %llu on is lost",
                 (unsigned long long)view->result.damage_lsn);
        label(out, x, y + 88, "w", line);
    }
}

static double log_draw(FILE *out, const struct map *map, double y)
{
    const double centre[2] = { MARGIN + 230, y + 170 };
    const struct kview *view = map->view;
    const struct kcheckpoint *c = view->super.checkpoints;
    uint32_t newest = view->super.newest;
    uint64_t keep = c[!newest].redo_lsn ? c[!newest].scan_lsn : c[newest].scan_lsn;
    uint64_t kept = view->result.end_lsn > keep ? view->result.end_lsn - keep : 0;
    label(out, MARGIN, y, "h", "The log, a ring: clockwise from the top");
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"105\" class=\"ring\"><title>free, or an old "
            "lap</title></circle>\n", centre[0], centre[1]);
    if (kept) {
        arc_draw(out, map, keep, kept, centre, 120, 126, "keep");
        fprintf(out, "<title>kept for the older checkpoint</title></path>\n");
    }
    groups_draw(out, map, centre);
    marks_draw(out, map, centre);
    ring_notes(out, map, MARGIN + 500, y + 110);
    return y + 370;
}

/* ---- figure 3: the metadata areas */

static const char *const meta_classes[] = { "mu", "mh", "md", "mn", "mb", "bad" };
static const char *const meta_words[] = { "not in use", "header", "directory", "names", "bucket",
                                          "damaged" };

static double area_draw(FILE *out, const struct map *map, uint32_t area, double y)
{
    const struct kslot *s = &map->view->super;
    const struct kcheckpoint *c = &s->checkpoints[area];
    const double step = INNER / META_COLUMNS, size = step - 1;
    char line[160];
    uint32_t count = map->meta_count[area], last = 0;
    for (uint32_t i = 0; i < count; i++)
        last = map->meta[area][i].used ? i : last;
    count = last + META_COLUMNS < count ? (last / META_COLUMNS + 1) * META_COLUMNS : count;
    snprintf(line, sizeof line, "area %u: %s, %u of %u pages in the map%s", area,
             !c->redo_lsn ? "never written" : !map->meta_valid[area] ? "its map does not verify"
             : area == s->newest ? "the newest checkpoint" : "the older checkpoint", c->pages,
             s->area_pages, area == map->view->base ? ", used" : "");
    label(out, MARGIN, y, c->redo_lsn && !map->meta_valid[area] ? "w" : "n", line);
    y += 8;
    for (uint32_t i = 0; i < count; i++) {
        const struct meta_cell *cell = &map->meta[area][i];
        fprintf(out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"%s\"><title>"
                "page %u%s: %s%s</title></rect>\n",
                MARGIN + i % META_COLUMNS * step, y + i / META_COLUMNS * step, size, size,
                meta_classes[cell->state], i * map->meta_each, map->meta_each > 1 ? " and on" : "",
                meta_words[cell->state], cell->bad ? " (CRC)" : "");
    }
    return y + (count + META_COLUMNS - 1) / META_COLUMNS * step + 20;
}

static double meta_draw(FILE *out, const struct map *map, double y)
{
    label(out, MARGIN, y, "h", "The metadata areas");
    double x = MARGIN + 260;
    for (int i = 0; i < 6; i++) {
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" class=\"%s\"/>\n", x,
                y - 10, meta_classes[i]);
        label(out, x + 15, y, "l", meta_words[i]);
        x += 30 + 7.5 * (double)strlen(meta_words[i]);
    }
    y = area_draw(out, map, 0, y + 26);
    return area_draw(out, map, 1, y) + 16;
}

/* ---- figure 4: the extents */

static void cell_title(FILE *out, const struct map *map, const struct cell *cell, uint64_t first)
{
    const struct kslot *s = &map->view->super;
    uint64_t count = s->extents - first < map->each ? s->extents - first : map->each;
    fprintf(out, "<title>extent");
    if (count > 1)
        fprintf(out, "s %llu to %llu: %llu in use", (unsigned long long)first,
                (unsigned long long)(first + count - 1), (unsigned long long)cell->extents);
    else
        fprintf(out, " %llu at byte %llu", (unsigned long long)first,
                (unsigned long long)(s->data_start + first * s->extent_bytes));
    fprintf(out, ", %llu of %llu pages", (unsigned long long)cell->pages,
            (unsigned long long)count * s->extent_pages);
    for (uint32_t i = 0; i < MAP_OWNERS && cell->owners[i].pages; i++) {
        const struct kcontainer *c = owner_of(map, cell->owners[i].object);
        fprintf(out, "%s", i ? ", " : " of ");
        escaped(out, c ? c->disk.name : "?", STORE_NAME_BYTES);
    }
    if (cell->pages)
        fprintf(out, "; newest LSN %llu", (unsigned long long)cell->newest_lsn);
    if (cell->lost)
        fprintf(out, "; %llu pages LOST", (unsigned long long)cell->lost);
    fprintf(out, "%s</title>",
            cell->slot_b ? "; superblock B"
            : cell->area ? "; metadata area"
                         : "");
}

/* Pale in the owner's colour, filled from below as far as it is full, a stripe for its age. */
static void cell_draw(FILE *out, const struct map *map, uint64_t i, double x, double y, double size)
{
    const struct cell *cell = &map->cells[i];
    char pale[32], strong[32], age[32];
    uint64_t first = i * map->each, count = map->view->super.extents - first;
    count = count < map->each ? count : map->each;
    double full = (double)cell->pages / (double)(count * map->view->super.extent_pages);
    uint32_t owner = 0;
    for (uint32_t o = 1; o < MAP_OWNERS; o++)
        if (cell->owners[o].pages > cell->owners[owner].pages)
            owner = o;
    fprintf(out, "<g>");
    cell_title(out, map, cell, first);
    if (!cell->pages) {
        fprintf(out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"%s\"/></g>\n",
                x, y, size, size,
                cell->slot_b             ? "slot"
                : cell->area * 2 > count ? "meta"
                                         : "free");
        return;
    }
    owner_colour(cell->owners[owner].object, 82, pale);
    owner_colour(cell->owners[owner].object, 46, strong);
    age_colour(map, cell->newest_lsn, age);
    double body = size - 2.2, height = body * (full < 0.12 ? 0.12 : full);
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>", x, y,
            size, size, pale);
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>", x,
            y + 2.2 + body - height, size, height, strong);
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"2.2\" fill=\"%s\"/>", x, y,
            size, age);
    if (cell->slot_b)
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"3\" height=\"%.1f\" class=\"slot\"/>", x,
                y, size);
    if (cell->lost)
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"bad\"/>",
                x, y, size, size);
    fprintf(out, "</g>\n");
}

static double age_legend(FILE *out, const struct map *map, double x, double y)
{
    char colour[32];
    label(out, x, y, "l", "old");
    for (int i = 0; i <= 20; i++) {
        uint64_t range = map->newest_lsn > map->oldest_lsn ? map->newest_lsn - map->oldest_lsn : 0;
        age_colour(map, map->oldest_lsn + range / 20 * (uint64_t)i, colour);
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"6.2\" height=\"8\" fill=\"%s\"/>\n",
                x + 24 + 6 * i, y - 8, colour);
    }
    label(out, x + 156, y, "l", "new");
    return y;
}

static bool row_is_free(const struct map *map, uint64_t from)
{
    for (uint64_t i = from; i < from + MAP_COLUMNS && i < map->cell_count; i++)
        if (map->cells[i].extents || map->cells[i].area || map->cells[i].slot_b)
            return false;
    return true;
}

/* Several rows without any use: a line of text instead. */
static double free_rows_draw(FILE *out, const struct map *map, uint64_t from, uint64_t end,
                             double y)
{
    char line[120];
    uint64_t extents = map->view->super.extents, last = end * map->each;
    last = last < extents ? last : extents;
    snprintf(line, sizeof line, "extents %llu to %llu: free",
             (unsigned long long)(from * map->each), (unsigned long long)(last - 1));
    label(out, MARGIN, y + 14, "l", line);
    return y + 22;
}

static double extents_draw(FILE *out, const struct map *map, double y)
{
    const double step = INNER / MAP_COLUMNS, size = step - 1;
    char line[200], bytes[32], several[40] = "";
    if (map->each > 1)
        snprintf(several, sizeof several, ", %llu to a square", (unsigned long long)map->each);
    label(out, MARGIN, y, "h", "The extents");
    snprintf(line, sizeof line, "%llu of %s%s; colour: owner, height: how full, stripe: age%s",
             (unsigned long long)map->view->super.extents,
             size_text(map->view->super.extent_bytes, bytes),
             several,
             map->pages_read ? ", red: lost pages" : " (damage was not looked for)");
    label(out, MARGIN + 150, y, "l", line);
    if (map->newest_lsn)
        age_legend(out, map, WIDTH - MARGIN - 190, y);
    y += 12;
    for (uint64_t i = 0; i < map->cell_count; i += MAP_COLUMNS) {
        uint64_t next = i;
        while (next < map->cell_count && row_is_free(map, next))
            next += MAP_COLUMNS;
        if (next > i + MAP_COLUMNS) {
            y = free_rows_draw(out, map, i, next, y);
            i = next - MAP_COLUMNS;
            continue;
        }
        for (uint64_t k = i; k < i + MAP_COLUMNS && k < map->cell_count; k++)
            cell_draw(out, map, k, MARGIN + (double)(k - i) * step, y, size);
        y += step;
    }
    return y + 34;
}

/* ---- figure 5: whose is what */

static double owners_draw(FILE *out, const struct map *map, double y)
{
    const struct kmodel *model = &map->view->model;
    char colour[32], bytes[32];
    label(out, MARGIN, y, "h", "Containers");
    y += 24;
    for (uint32_t i = 0; i < model->container_count; i++) {
        const struct kcontainer *c = &model->containers[i];
        double x = MARGIN + i % 3 * (INNER / 3), line = y + i / 3 * 22;
        owner_colour(c->object, 46, colour);
        fprintf(out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"2\" fill=\"%s\"/>\n",
                x, line - 10, colour);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"n\">", x + 19, line);
        escaped(out, c->disk.name, 28);
        fprintf(out,
                " <tspan class=\"l\">%s, %#llx</tspan><title>id %llu, %llu pages</title></text>\n",
                size_text(c->pages_present * STORE_PAGE_BYTES, bytes),
                (unsigned long long)kview_address(map->view, c, 0), (unsigned long long)c->object,
                (unsigned long long)c->pages_present);
    }
    if (!model->container_count)
        label(out, MARGIN, y, "n", "none");
    return y + (model->container_count + 2) / 3 * 22 + 24;
}

/* ---- the page */

static const char style[] =
    "body{margin:0;background:#f6f7f9;font-family:system-ui,sans-serif;color:#1d2733}"
    "main{max-width:1200px;margin:0 auto;padding:20px 12px}"
    "h1{font-size:22px;margin:0 24px 4px}p{margin:2px 24px 10px;color:#5a6675}"
    "b.bad{color:#c8102e}svg{width:100%;height:auto;background:#fff;border-radius:10px;"
    "box-shadow:0 1px 4px #0002}";
static const char drawing_style[] =
    "text{font-family:system-ui,'DejaVu Sans',sans-serif;fill:#1d2733}"
    ".h{font-size:16px;font-weight:600}.n{font-size:13px}.l{font-size:12px;fill:#66727f}"
    ".s{font-size:11px;fill:#3b4957}.m{font-size:11px}.w{font-size:13px;fill:#c8102e;font-weight:"
    "600}"
    ".in{font-size:13px;fill:#fff;text-anchor:middle}"
    ".log{fill:#3d6ea8}.meta{fill:#7a5ea6}.data{fill:#5f8a6b}.slot{fill:#1d2733}.bad{fill:#d7263d}"
    ".ring{fill:none;stroke:#e6eaef;stroke-width:26}.g0{fill:#3d6ea8}.g1{fill:#6f9bd0}"
    ".keep{fill:#b9c7d8}.mark{stroke:#1d2733;stroke-width:2}.markbad{stroke:#d7263d;stroke-width:3}"
    ".mu{fill:#eceff3}.mh{fill:#1d2733}.md{fill:#c9873a}.mn{fill:#dfc04f}.mb{fill:#7a5ea6}"
    ".free{fill:#eceff3}";

static void head_draw(FILE *out, const struct map *map)
{
    const struct kview *view = map->view;
    char uuid[33], disk[32];
    bool bad = view->result.damages || view->result.error || map->lost_pages;
    uuid_text(view->super.uuid, uuid);
    fprintf(out, "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head>"
            "<meta charset=\"utf-8\"/><title>");
    escaped(out, map->path, 200);
    fprintf(out, "</title><style>%s</style></head><body><main>\n<h1>", style);
    escaped(out, map->path, 200);
    fprintf(out, "</h1>\n<p>store %s, %s, generation %llu: %u containers, %llu pages in %u of %llu "
            "extents. ", uuid, size_text(view->super.disk_bytes, disk),
            (unsigned long long)view->super.generation, view->model.container_count,
            (unsigned long long)view->model.pages_present, view->model.live_leaves,
            (unsigned long long)view->super.extents);
    if (bad)
        fprintf(out, "<b class=\"bad\">Damaged: %llu findings, %llu pages lost.</b>",
                (unsigned long long)view->result.damages, (unsigned long long)map->lost_pages);
    else
        fprintf(out, "No damage%s.", map->pages_read ? "" : " in metadata and log");
    fprintf(out, "</p>\n");
}

static double figures_draw(FILE *out, const struct map *map)
{
    double y = disk_draw(out, map, 36);
    y = log_draw(out, map, y);
    y = meta_draw(out, map, y);
    y = extents_draw(out, map, y);
    return owners_draw(out, map, y);
}

/* The height is known when all is drawn; so it is drawn twice, first to nowhere. */
void map_draw(const struct map *map, FILE *out)
{
    FILE *nowhere = fopen("/dev/null", "w");
    double height = nowhere ? figures_draw(nowhere, map) : 4000;
    if (nowhere)
        fclose(nowhere);
    head_draw(out, map);
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\">\n<style>%s"
            "</style>\n", WIDTH, height, drawing_style);
    figures_draw(out, map);
    fprintf(out, "</svg>\n</main></body></html>\n");
}
