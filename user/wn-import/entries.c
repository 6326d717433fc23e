/*
 * entries.c - phase 3: a line of index.* becomes an entry, whose senses point at synsets.
 *
 *   | struct wn_entry | senses ... | "dog\0" |
 */
#include "import.h"

#include <errno.h>
#include <string.h>

#define SENSES_MAX   1024

/* One parsed line of index.* */
static struct {
    struct wn_entry head;
    const char *lemma;
    size_t lemma_bytes;
    struct wn_synset *senses[SENSES_MAX];
} line_parts;

/* lemma pos synset_count type_count types... sense_count tagged_count offsets... */
static void parse_line(struct fields *line, uint32_t pos)
{
    size_t bytes;
    line_parts.lemma = field_text(line, &line_parts.lemma_bytes);
    const char *letter = field_text(line, &bytes);
    if (line->bad || pos_of_letter(*letter) != pos || line_parts.lemma_bytes >= WN_LEMMA_BYTES_MAX)
        line->bad = 1;
    uint32_t count = field_decimal(line);
    line_parts.head.types = 0;
    for (uint32_t types = field_decimal(line); types > 0 && !line->bad; types--) {
        const char *symbol = field_text(line, &bytes);
        line_parts.head.types |= 1u << type_of_symbol(symbol, bytes);
    }
    field_skip(line);                       /* the count once more */
    line_parts.head.tagged_count = (uint16_t)field_decimal(line);
    if (count == 0 || count > SENSES_MAX)
        line->bad = 1;
    for (uint32_t i = 0; i < count && !line->bad; i++) {
        line_parts.senses[i] = map_find(pos, field_decimal(line));
        if (line_parts.senses[i] == NULL)
            line->bad = 1;
    }
    line_parts.head.sense_count = (uint16_t)count;
}

static struct wn_entry *entry_new(struct import *im, const void *near)
{
    size_t senses_bytes = line_parts.head.sense_count * sizeof(struct wn_synset *);
    struct wn_entry *entry = ps_alloc(im->container,
        sizeof(*entry) + senses_bytes + line_parts.lemma_bytes + 1, near);
    if (entry == NULL)
        return NULL;
    *entry = line_parts.head;
    memcpy(entry->senses, line_parts.senses, senses_bytes);
    char *lemma = (char *)entry->senses + senses_bytes;
    memcpy(lemma, line_parts.lemma, line_parts.lemma_bytes);    /* the object came zeroed */
    entry->lemma = lemma;
    return entry;
}

/* One line into the batch. 1, 0 at the end of the file, -errno. */
static int entries_line(struct import *im, struct wn_root *root, struct wn_batch *batch)
{
    uint32_t file = root->progress.file;
    struct input *in = &im->index[file];
    uint64_t begin = in->offset;
    struct fields line;
    int more = input_line(in, &line);

    if (more <= 0 || (line.at < line.end && *line.at == ' '))
        return more;
    parse_line(&line, file + 1);
    if (line.bad)
        return import_malformed(im, index_names[file], begin, "this line is no index entry");
    const void *near = batch->count > 0 ? batch->objects[batch->count - 1] : NULL;
    struct wn_entry *entry = entry_new(im, near);
    if (entry == NULL)
        return -errno;
    batch_add(batch, entry, wn_hash(line_parts.lemma, line_parts.lemma_bytes));
    root->entry_count++;
    return 1;
}

int entries_step(struct import *im, struct wn_root *root)
{
    uint32_t file = root->progress.file;
    int error = map_build(root);

    return error ? error : lines_step(im, root, &im->index[file], WN_ENTRIES + file + 1,
                                      entries_line, WN_PHASE_NOTES);
}
