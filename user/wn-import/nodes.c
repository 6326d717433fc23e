/*
 * nodes.c - phase 1: a line of data.* becomes a synset, one object with all its parts.
 *
 *   | struct wn_synset | links ... | words ... | frames ... | "dog\0" ... "gloss\0" |
 *
 * A link's target may be a line that is not read yet, so targets stay file offsets until links.c.
 * The parts of a line are first gathered in volatile arrays, for their sizes are known only at its
 * end; the container is then written once, from front to back.
 */
#include "import.h"

#include <errno.h>
#include <string.h>

#define WORDS_MAX  255
#define LINKS_MAX  1024
#define FRAMES_MAX 64

/* One parsed line. */
static struct {
    struct wn_synset head;
    struct wn_link links[LINKS_MAX];
    struct wn_frame frames[FRAMES_MAX];
    struct { const char *text; size_t bytes; uint8_t lex_id; } words[WORDS_MAX];
    const char *gloss;
    size_t gloss_bytes, words_bytes;
} line_parts;

/* The synset's type as data.* has it: n, v, a, s, r. */
static void parse_type(struct fields *line)
{
    size_t bytes;
    const char *letter = field_text(line, &bytes);

    line_parts.head.satellite = bytes == 1 && *letter == 's';
    line_parts.head.pos = (uint8_t)(bytes == 1 ? pos_of_letter(*letter) : 0);
    if (line_parts.head.pos == 0)
        line->bad = 1;
}

static void parse_words(struct fields *line)
{
    uint32_t count = field_hex(line, 0);
    if (count == 0 || count > WORDS_MAX)
        line->bad = 1;
    line_parts.words_bytes = 0;
    for (uint32_t i = 0; i < count && !line->bad; i++) {
        line_parts.words[i].text = field_text(line, &line_parts.words[i].bytes);
        line_parts.words[i].lex_id = (uint8_t)field_hex(line, 0);
        line_parts.words_bytes += line_parts.words[i].bytes + 1;
        if (line_parts.words[i].bytes >= WN_LEMMA_BYTES_MAX)
            line->bad = 1;
    }
    line_parts.head.word_count = (uint8_t)count;
}

static void parse_links(struct fields *line)
{
    uint32_t count = field_decimal(line);
    if (count > LINKS_MAX)
        line->bad = 1;
    for (uint32_t i = 0; i < count && !line->bad; i++) {
        struct wn_link *link = &line_parts.links[i];
        size_t bytes;
        const char *symbol = field_text(line, &bytes);
        uint64_t offset, pos;

        link->type = (uint8_t)type_of_symbol(symbol, bytes);
        offset = field_decimal(line);
        symbol = field_text(line, &bytes);
        pos = pos_of_letter(*symbol);
        link->source_word = (uint8_t)field_hex(line, 2);
        link->target_word = (uint8_t)field_hex(line, 2);
        link->target = (struct wn_synset *)(uintptr_t)(pos << 32 | offset);
        if (link->type == 0 || pos == 0)
            line->bad = 1;
    }
    line_parts.head.link_count = (uint16_t)count;
}

static void parse_frames(struct fields *line)
{
    uint32_t count = line_parts.head.pos == WN_VERB ? field_decimal(line) : 0;
    if (count > FRAMES_MAX)
        line->bad = 1;
    for (uint32_t i = 0; i < count && !line->bad; i++) {
        field_skip(line);                   /* "+" */
        line_parts.frames[i].number = (uint8_t)field_decimal(line);
        line_parts.frames[i].word = (uint8_t)field_hex(line, 2);
    }
    line_parts.head.frame_count = (uint8_t)count;
}

static void parse_gloss(struct fields *line)
{
    size_t bytes;
    const char *bar = field_text(line, &bytes);
    const char *end = line->end;

    if (bytes != 1 || *bar != '|')
        line->bad = 1;
    while (end > line->at && end[-1] == ' ')
        end--;
    line_parts.gloss = line->at;
    line_parts.gloss_bytes = (size_t)(end - line->at);
}

static int parse_line(struct fields *line)
{
    line_parts.head.file_offset = field_decimal(line);
    line_parts.head.lex_file = (uint8_t)field_decimal(line);
    parse_type(line);
    parse_words(line);
    if (!line->bad)
        parse_links(line);
    if (!line->bad)
        parse_frames(line);
    if (!line->bad)
        parse_gloss(line);
    return line->bad ? -EINVAL : 0;
}

static char *put_text(char *at, const char *text, size_t bytes)
{
    memcpy(at, text, bytes);
    at[bytes] = 0;
    return at + bytes + 1;
}

/* The parsed line as an object, near the one before it; NULL and errno. */
static struct wn_synset *synset_new(struct import *im, uint32_t number, const void *near)
{
    const struct wn_synset *head = &line_parts.head;
    size_t links_bytes = head->link_count * sizeof(struct wn_link);
    size_t words_bytes = head->word_count * sizeof(struct wn_word);
    size_t frames_bytes = head->frame_count * sizeof(struct wn_frame);
    struct wn_synset *synset = ps_alloc(im->container, sizeof(*synset) + links_bytes + words_bytes +
        frames_bytes + line_parts.words_bytes + line_parts.gloss_bytes + 1, near);
    if (synset == NULL)
        return NULL;

    *synset = *head;
    synset->number = number;
    memcpy(synset->links, line_parts.links, links_bytes);
    synset->words = (struct wn_word *)((char *)synset->links + links_bytes);
    synset->frames = (struct wn_frame *)((char *)synset->words + words_bytes);
    memcpy(synset->frames, line_parts.frames, frames_bytes);
    char *text = (char *)synset->frames + frames_bytes;
    for (uint32_t i = 0; i < head->word_count; i++) {
        synset->words[i].text = text;
        synset->words[i].lex_id = line_parts.words[i].lex_id;
        text = put_text(text, line_parts.words[i].text, line_parts.words[i].bytes);
    }
    synset->gloss = text;
    put_text(text, line_parts.gloss, line_parts.gloss_bytes);
    return synset;
}

/* One line into the batch. 1, 0 at the end of the file, -errno. */
static int nodes_line(struct import *im, struct wn_root *root, struct wn_batch *batch)
{
    uint32_t file = root->progress.file;
    struct input *in = &im->data[file];
    uint64_t begin = in->offset;
    struct fields line;
    int more = input_line(in, &line);

    if (more <= 0 || (line.at < line.end && *line.at == ' '))
        return more;                        /* the licence's lines begin with a blank */
    if (parse_line(&line) != 0 || line_parts.head.file_offset != begin ||
        line_parts.head.pos != file + 1)
        return import_malformed(im, data_names[file], begin, "this line is no synset");
    const void *near = batch->count > 0 ? batch->objects[batch->count - 1] : NULL;
    struct wn_synset *synset = synset_new(im, root->synset_count, near);
    if (synset == NULL)
        return -errno;
    batch_add(batch, synset, synset->file_offset);
    root->synset_count++;
    root->sense_count += synset->word_count;
    root->link_count += synset->link_count;
    return 1;
}

int lines_step(struct import *im, struct wn_root *root, struct input *in, uint32_t kind,
               int (*line)(struct import *, struct wn_root *, struct wn_batch *),
               uint32_t next_phase)
{
    struct wn_progress *progress = &root->progress;
    int more = input_seek(in, progress->byte_offset);

    if (more < 0)
        return more;
    struct wn_batch *batch = batch_new(im, root, kind);
    if (batch == NULL)
        return -errno;
    do {
        more = line(im, root, batch);
    } while (more == 1 && batch->count < WN_BATCH_OBJECTS);
    if (more < 0)
        return more;
    progress->byte_offset = in->offset;
    if (more == 0) {
        progress->byte_offset = 0;
        progress->file++;
    }
    if (progress->file == 4) {
        progress->phase = next_phase;
        progress->file = 0;
    }
    return 0;
}

int nodes_step(struct import *im, struct wn_root *root)
{
    uint32_t file = root->progress.file;
    int error = lines_step(im, root, &im->data[file], WN_SYNSETS + file + 1, nodes_line,
                           WN_PHASE_LINKS);

    if (error == 0 && root->progress.phase == WN_PHASE_LINKS)
        root->progress.batch = root->first;
    return error;
}
