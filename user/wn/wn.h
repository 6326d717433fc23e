/*
 * wn.h - the parts of the program wn, and what they share.
 *
 * Everything here runs inside one snapshot transaction for each word. A transaction may be run
 * again, so what is printed is gathered in a volatile text that each run starts anew; it reaches
 * stdout after the commit.
 */
#ifndef WN_H
#define WN_H

#include "wordnet.h"

#include <stddef.h>
#include <stdint.h>

/* ---- text.c: a text that grows ---- */
struct text {
    char *bytes;
    size_t used, room;
};
void text_add(struct text *text, const char *string);
void text_add_bytes(struct text *text, const char *bytes, size_t count);
void text_add_number(struct text *text, uint32_t number, int digits_min);
/* Overwrite at a place; what does not fit into room bytes is inserted. */
void text_patch(struct text *text, size_t at, size_t room, const char *string);
void text_cut(struct text *text, size_t used);
void text_replace(struct text *text, size_t from, char old, char new);

/* ---- lookup.c: from a word to its entries ---- */
#define FORMS_MAX 5
struct forms {
    const struct wn_entry *entries[FORMS_MAX];
    int count;
};
/* The object of this kind with exactly this key, or NULL. */
const void *directory_find(const struct wn_root *root, const char *key, uint32_t kind);
const struct wn_entry *entry_find(const struct wn_root *root, const char *lemma, uint32_t pos);
/* The spellings of a word with '_', '-' or nothing between its parts, and without periods. */
void forms_find(const struct wn_root *root, const char *word, uint32_t pos, struct forms *forms);
int word_defined(const struct wn_root *root, const char *word, uint32_t pos);
/* Lower case, '_' for a blank, cut at '(': as keys are written. 0, or -1: it is too long. */
int word_key(const char *word, char key[WN_LEMMA_BYTES_MAX]);
/* The sense of the synset's word (counts from 0), as its index entry numbers it; 0: none. */
uint32_t sense_number(const struct wn_root *root, const struct wn_synset *synset, uint32_t word);

/* ---- morph.c: from an inflected form to its base forms ---- */
#define BASES_MAX 8
struct bases {
    char words[BASES_MAX][WN_LEMMA_BYTES_MAX];
    int count;
};
void bases_find(const struct wn_root *root, const char *word, uint32_t pos, struct bases *bases);

/* ---- search.c, print.c, trace.c: the searches of the wordnet package's tool ---- */
struct query {
    const struct wn_root *root;
    int show_gloss, show_offset, show_file, show_senses;
    uint32_t only_sense;                    /* 0: all */
    struct text out;
    uint32_t pos;                           /* being searched */
    uint32_t sense;                         /* being shown, counts from 0 */
    int heading_shown;                      /* of that sense */
    uint32_t form_senses;                   /* shown of the index entry at hand */
    uint32_t found;                         /* shown in all */
    size_t last_part;                       /* where out ended after the last part or whole */
};

enum { WITH_GLOSS = 1, WITH_ANTONYMS = 2, WITH_MARKERS = 4 };
/* head, the synset's words (or only one, counts from 1), tail. */
void synset_print(struct query *q, const char *head, const struct wn_synset *synset,
                  uint32_t only_word, int with, const char *tail);
void antonym_cluster_print(struct query *q, const struct wn_synset *synset);
/* "Sense 3" and the synset. */
void heading_print(struct query *q, const struct wn_synset *synset, uint32_t sense);

struct search;
const struct search *search_named(const char *option);      /* "-over"; NULL: there is none */
void search_run(struct query *q, const struct search *search, const char *word);
void search_list(void);                                     /* for --help */

extern const char *const pos_names[WN_POS_END];
extern const char *const frame_texts[36];
extern const char *const lex_files[45];

/* The traces; which is the number of the word looked for in the synset, or 0. */
void trace_links(struct query *q, const struct wn_synset *synset, uint32_t which, uint32_t type,
                 uint32_t pos, int depth);
void trace_sisters(struct query *q, const struct wn_synset *synset, uint32_t which);
void trace_domains(struct query *q, const struct wn_synset *synset, uint32_t first);
void trace_derivations(struct query *q, const struct wn_synset *synset, uint32_t which);
void trace_parts(struct query *q, const struct wn_synset *synset, uint32_t which, uint32_t first);
void trace_antonyms(struct query *q, const struct wn_synset *synset, uint32_t which);
void print_see_also(struct query *q, const struct wn_synset *synset, uint32_t which);
void print_frames(struct query *q, const struct wn_synset *synset, uint32_t which);

/* ---- word.c ---- */
void familiarity_print(struct query *q, uint32_t pos, const struct forms *forms);
void similar_verbs_print(struct query *q, const struct wn_entry *entry);
void compounds_print(struct query *q, const char *word, uint32_t pos);

/* ---- path.c, check.c ---- */
/* 0, or 1 if there is none, or -errno. */
int path_find(const struct wn_root *root, const char *from, const char *to, struct text *out);
void counts_print(const struct wn_root *root, struct text *out);
/* How many faults were found; the first few are in out. -errno if it could not be done. */
int check_all(const struct wn_root *root, struct text *out);

#endif
