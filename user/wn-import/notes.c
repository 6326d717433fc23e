/*
 * notes.c - phase 4: small files of "key value" lines, each line a note.
 *
 * noun.exc ... adv.exc  "ran run": irregular forms and their base forms
 * sentidx.vrb           "abash%2:37:00:: 126,127": which example sentences a sense has
 * sents.vrb             "126 The bad news will %s him": the sentences
 *
 * A file that is missing is empty: fewer forms are known then, nothing else changes.
 */
#include "import.h"

#include <errno.h>
#include <string.h>

static struct wn_note *note_new(struct import *im, const struct fields *key_value, size_t key_bytes,
                                const void *near)
{
    const char *key = key_value->at, *value = key + key_bytes;
    const char *end = key_value->end;       /* blanks at the end stay: the tool prints them */

    while (value < end && *value == ' ')
        value++;
    size_t value_bytes = (size_t)(end - value);
    struct wn_note *note =
        ps_alloc(im->container, sizeof(*note) + key_bytes + value_bytes + 2, near);
    if (note == NULL)
        return NULL;
    char *text = (char *)(note + 1);        /* zeroed, so both strings end by themselves */
    memcpy(text, key, key_bytes);
    memcpy(text + key_bytes + 1, value, value_bytes);
    note->key = text;
    note->value = text + key_bytes + 1;
    return note;
}

/* One line into the batch. 1, 0 at the end of the file, -errno. */
static int notes_line(struct import *im, struct wn_root *root, struct wn_batch *batch)
{
    struct fields line, rest;
    int more = input_line(&im->notes[root->progress.file], &line);
    size_t key_bytes;

    if (more <= 0)
        return more;
    rest = line;
    field_text(&rest, &key_bytes);
    if (key_bytes == 0 || key_bytes >= WN_LEMMA_BYTES_MAX)
        return 1;
    const void *near = batch->count > 0 ? batch->objects[batch->count - 1] : NULL;
    struct wn_note *note = note_new(im, &line, key_bytes, near);
    if (note == NULL)
        return -errno;
    batch_add(batch, note, wn_hash(note->key, key_bytes));
    root->note_count++;
    return 1;
}

static void notes_next_file(struct wn_progress *progress)
{
    progress->byte_offset = 0;
    progress->file++;
    if (progress->file == NOTE_FILES) {
        progress->phase = WN_PHASE_DIRECTORY;
        progress->file = 0;
    }
}

int notes_step(struct import *im, struct wn_root *root)
{
    static const uint8_t kinds[NOTE_FILES] = {
        WN_EXCEPTIONS + WN_NOUN, WN_EXCEPTIONS + WN_VERB, WN_EXCEPTIONS + WN_ADJ,
        WN_EXCEPTIONS + WN_ADV, WN_EXAMPLES, WN_SENTENCES
    };
    struct wn_progress *progress = &root->progress;
    struct input *in = &im->notes[progress->file];

    if (in->fd < 0) {
        notes_next_file(progress);
        return 0;
    }
    int more = input_seek(in, progress->byte_offset);
    if (more < 0)
        return more;
    struct wn_batch *batch = batch_new(im, root, kinds[progress->file]);
    if (batch == NULL)
        return -errno;
    do {
        more = notes_line(im, root, batch);
    } while (more == 1 && batch->count < WN_BATCH_OBJECTS);
    if (more < 0)
        return more;
    progress->byte_offset = in->offset;
    if (more == 0)
        notes_next_file(progress);
    return 0;
}
