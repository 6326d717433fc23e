/*
 * import.h - the phases of the import, and what they share.
 *
 * Each phase is a function that does a bounded amount of work inside one transaction and moves
 * root->progress on. It may be run again from its start at any load or store, and it begins from
 * root->progress alone. So it does not matter whether a deadlock, a kill or nothing came between.
 */
#ifndef WN_IMPORT_IMPORT_H
#define WN_IMPORT_IMPORT_H

#include "../wn/wordnet.h"
#include "input.h"
#include "pstore.h"

#define NOTE_FILES 6                        /* four *.exc, sentidx.vrb, sents.vrb */

struct import {
    ps_container *container;
    const char *folder;
    struct input data[4], index[4], notes[NOTE_FILES], counts;
    char complaint[160];                    /* what a failed phase has to say; empty: the errno */
};

/* One transaction's work, called inside it. 0 or -errno. */
int nodes_step(struct import *im, struct wn_root *root);
int links_step(struct import *im, struct wn_root *root);
int entries_step(struct import *im, struct wn_root *root);
int notes_step(struct import *im, struct wn_root *root);
int directory_step(struct import *im, struct wn_root *root);

/* What the first two steps have in common: `line` takes the next line of `in` into the batch (1; 0:
 * the file ended; -errno), up to a batch full; after the fourth file comes next_phase. nodes.c */
int lines_step(struct import *im, struct wn_root *root, struct input *in, uint32_t kind,
               int (*line)(struct import *, struct wn_root *, struct wn_batch *),
               uint32_t next_phase);

/* Volatile tables, made from the container or the input when a phase first needs them, in a
 * transaction. map_find: the synset that data.* of pos has at this offset, or NULL. */
int map_build(const struct wn_root *root);
struct wn_synset *map_find(uint32_t pos, uint32_t file_offset);
int counts_build(struct import *im);
/* The tag count of a word of a synset whose links are pointers. */
uint32_t counts_find(const struct wn_synset *synset, const struct wn_word *word);

/* A new batch at the end of the list; NULL and errno. */
struct wn_batch *batch_new(struct import *im, struct wn_root *root, uint32_t kind);
void batch_add(struct wn_batch *batch, void *object, uint32_t key);

/* WordNet's symbol as enum wn_type, 0 if it is none; pos letter as enum wn_pos, 0 if none. */
uint32_t type_of_symbol(const char *symbol, size_t bytes);
uint32_t pos_of_letter(char letter);

/* Note what is wrong with the line that begins at offset; -EINVAL. */
int import_malformed(struct import *im, const char *file, uint64_t offset, const char *what);

extern const char *const data_names[4], *const index_names[4], *const note_names[NOTE_FILES];

#endif
