/*
 * wordnet.h - WordNet as C structs in a container: what wn-import builds and wn reads.
 *
 * Every pointer below is a plain C pointer into the container, good in every process and after
 * every reboot. An object and its strings are one allocation: a synset and all that is printed
 * about it lie together on one page, or on two.
 *
 *   root -> segments[] -> slots -> entry "dog" noun -> senses[] -> synset -> links[] -> synset ...
 *     |                                                              ^
 *     +---> batch -> batch -> ...  (every object, in the order of the files)
 *
 * Invariants, once the phase is WN_DONE (wn --check walks them)
 *   WN1  Every link's target is a synset of this container; its word numbers exist on both sides.
 *   WN2  Every synset is in exactly one batch, at the place that its number names.
 *   WN3  Every entry's senses are synsets that contain its lemma.
 *   WN4  Every entry and note is found under its key by the directory.
 */
#ifndef WORDNET_H
#define WORDNET_H

#include <stdint.h>

#define WN_CONTAINER      "wordnet"
#define WN_VERSION        1
#define WN_BATCH_OBJECTS  2000              /* made by one transaction */
#define WN_SEGMENT_SLOTS  4096
#define WN_SEGMENTS_MAX   256
#define WN_LEMMA_BYTES_MAX 256              /* with the closing zero */

enum wn_pos { WN_NOUN = 1, WN_VERB, WN_ADJ, WN_ADV, WN_POS_END };

/* What a batch or a slot holds. The first four groups have one kind for each part of speech. */
enum wn_kind {
    WN_EMPTY = 0,
    WN_SYNSETS = 0,                         /* + pos: 1 to 4 */
    WN_ENTRIES = 4,                         /* + pos: 5 to 8 */
    WN_EXCEPTIONS = 8,                      /* + pos: 9 to 12, struct wn_note: "ran" -> "run" */
    WN_EXAMPLES = 13,                       /* struct wn_note: sense key -> sentence numbers */
    WN_SENTENCES = 14                       /* struct wn_note: number -> sentence with %s */
};

/* Types of links; the comment is WordNet's symbol. The six of parts and wholes stay together. */
enum wn_type {
    WN_ANTONYM = 1,                         /* !  */
    WN_HYPERNYM,                            /* @  */
    WN_HYPONYM,                             /* ~  */
    WN_INSTANCE,                            /* @i is an instance of */
    WN_INSTANCES,                           /* ~i has the instance */
    WN_MEMBER_OF,                           /* #m */
    WN_SUBSTANCE_OF,                        /* #s */
    WN_PART_OF,                             /* #p */
    WN_HAS_MEMBER,                          /* %m */
    WN_HAS_SUBSTANCE,                       /* %s */
    WN_HAS_PART,                            /* %p */
    WN_ENTAILS,                             /* *  */
    WN_CAUSES,                              /* >  */
    WN_SIMILAR,                             /* &  */
    WN_PARTICIPLE,                          /* <  */
    WN_SEE_ALSO,                            /* ^  */
    WN_PERTAINYM,                           /* \  */
    WN_ATTRIBUTE,                           /* =  */
    WN_VERB_GROUP,                          /* $  */
    WN_DERIVATION,                          /* +  */
    WN_TOPIC,                               /* ;c */
    WN_USAGE,                               /* ;u */
    WN_REGION,                              /* ;r */
    WN_TOPIC_TERM,                          /* -c */
    WN_USAGE_TERM,                          /* -u */
    WN_REGION_TERM,                         /* -r */
    WN_TYPE_END
};

/* A pointer of WordNet. Word numbers count from 1; 0 means the whole synset (a semantic link).
 * Between the phases WN_PHASE_NODES and WN_PHASE_LINKS the target is pos << 32 | file offset. */
struct wn_link {
    struct wn_synset *target;
    uint8_t type;                           /* enum wn_type */
    uint8_t source_word, target_word;
    uint8_t reserved[5];
};

struct wn_word {
    const char *text;                       /* as in the file: '_' for a blank, "galore(ip)" */
    uint8_t lex_id;                         /* tells senses in one lexicographer's file apart */
    uint8_t reserved[3];
    uint32_t tag_count;                     /* how often the tagged texts use this sense of it */
};

struct wn_frame {
    uint8_t number;                         /* of the sentence frame, 1 to 35 */
    uint8_t word;                           /* counts from 1; 0: all words */
};

struct wn_synset {
    struct wn_word *words;                  /* these four lie behind links[] */
    struct wn_frame *frames;
    const char *gloss;
    uint32_t number;                        /* counts from 0 over all four files */
    uint32_t file_offset;                   /* where data.* has it, which is its name */
    uint16_t link_count;
    uint8_t word_count, frame_count;
    uint8_t pos;                            /* enum wn_pos */
    uint8_t satellite;                      /* an adjective that hangs on a cluster's head */
    uint8_t lex_file;                       /* the lexicographer's file, 0 to 44 */
    uint8_t reserved;
    struct wn_link links[];
};
_Static_assert(sizeof(struct wn_synset) == 40, "a synset's head");

/* Entries and notes begin with their key, so that one probe serves both. */
struct wn_entry {
    const char *lemma;                      /* lower case, '_' for a blank; behind senses[] */
    uint32_t types;                         /* bit t is set: some sense has a link of type t */
    uint16_t sense_count, tagged_count;     /* the tagged ones come first */
    struct wn_synset *senses[];             /* the most frequent first */
};

struct wn_note {
    const char *key;                        /* both strings lie behind the struct */
    const char *value;
};

struct wn_slot {
    const void *object;                     /* entry or note; NULL in an empty slot */
    uint32_t hash;                          /* wn_hash() of its key */
    uint8_t kind;
    uint8_t reserved[3];
};

struct wn_segment {
    struct wn_slot slots[WN_SEGMENT_SLOTS];
};

/* What one transaction of the import made, in the order of the file. */
struct wn_batch {
    struct wn_batch *next;
    uint32_t count;
    uint8_t kind;
    uint8_t reserved[3];
    void *objects[WN_BATCH_OBJECTS];
    uint32_t keys[WN_BATCH_OBJECTS];        /* a synset's file offset; else wn_hash() of the key */
};

enum wn_phase {
    WN_PHASE_NODES = 0,                     /* data.*: synsets whose links hold file offsets */
    WN_PHASE_LINKS,                         /* they become pointers; tag counts from cntlist.rev */
    WN_PHASE_ENTRIES,                       /* index.* */
    WN_PHASE_NOTES,                         /* *.exc, sentidx.vrb, sents.vrb */
    WN_PHASE_DIRECTORY,                     /* the hash table over entries and notes */
    WN_DONE
};

/* How far the import is: changed by the transaction that did the work, so never wrong. */
struct wn_progress {
    uint32_t phase;                         /* enum wn_phase */
    uint32_t file;                          /* counts from 0 within the phase */
    uint64_t byte_offset;                   /* of the next line in that file */
    struct wn_batch *batch;                 /* the next one to link */
};

struct wn_root {
    struct wn_progress progress;
    struct wn_batch *first, *last;
    uint64_t input_bytes;                   /* of data.* and index.*: the same edition goes on */
    uint32_t synset_count, sense_count, link_count, entry_count, note_count;
    uint32_t segment_count;                 /* a power of two, or 0 before the directory */
    struct wn_segment *segments[WN_SEGMENTS_MAX];
};

/* FNV-1a. The part of speech is left out: all that is known of one word lies in one place. */
static inline uint32_t wn_hash(const char *text, uint64_t bytes)
{
    uint32_t hash = 2166136261u;
    for (uint64_t i = 0; i < bytes; i++)
        hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    return hash;
}

/* Where the search for a hash begins, among slot_count (a power of two) slots. */
static inline uint32_t wn_slot_first(uint32_t hash, uint32_t slot_count)
{
    return (uint32_t)(((uint64_t)(hash * 2654435769u) * slot_count) >> 32);
}

#endif
