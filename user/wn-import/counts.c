/*
 * counts.c - how often the tagged texts use each sense of a word, from cntlist.rev.
 *
 * Its lines are "sense key, sense number, count"; a sense key names a word in a synset:
 *   dog%1:05:00::            lemma % type : lexicographer's file : lex_id : :
 *   cardinal%5:00:00:three:00    a satellite adds the first word of its cluster's head
 * The file is read whole into a volatile hash table of 64-bit hashes (37,000 lines, 1 MB). Without
 * the file all counts are 0.
 */
#include "import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTS_SLOTS 65536                  /* a power of two */

static struct count {
    uint64_t hash;                          /* of the sense key, never 0; 0: an empty slot */
    uint32_t count;
} *counts;
static uint32_t counts_used;

static uint64_t key_hash(const char *key, size_t bytes)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (uint8_t)key[i]) * 1099511628211u;
    return hash | 1;
}

/* The slot that has this hash, or the empty one where it belongs. */
static struct count *counts_slot(uint64_t hash)
{
    uint64_t i = hash >> 32;
    while (counts[i % COUNTS_SLOTS].hash != 0 && counts[i % COUNTS_SLOTS].hash != hash)
        i++;
    return &counts[i % COUNTS_SLOTS];
}

static void counts_line(struct fields *line)
{
    size_t bytes;
    const char *key = field_text(line, &bytes);
    struct count *slot = counts_slot(key_hash(key, bytes));

    field_skip(line);                       /* the sense number, which index.* knows better */
    uint32_t count = field_decimal(line);
    if (line->bad)
        return;
    counts_used += slot->hash == 0;
    slot->hash = key_hash(key, bytes);
    slot->count = count;
}

int counts_build(struct import *im)
{
    struct fields line;
    int more = 1;

    if (counts != NULL)
        return 0;
    counts = calloc(COUNTS_SLOTS, sizeof(*counts));
    if (counts == NULL)
        return -ENOMEM;
    if (im->counts.fd < 0)
        return 0;
    while (more == 1 && counts_used < COUNTS_SLOTS * 3 / 4) {
        more = input_line(&im->counts, &line);
        if (more == 1)
            counts_line(&line);
    }
    return more < 0 ? more : 0;
}

/* The key's form of a word: lower case, without a marker like "(ip)". Its end. */
static char *put_lemma(char *at, const char *text)
{
    for (; *text != 0 && *text != '('; text++)
        *at++ = *text >= 'A' && *text <= 'Z' ? (char)(*text - 'A' + 'a') : *text;
    return at;
}

static char *put_two_digits(char *at, uint32_t number)
{
    *at++ = (char)('0' + number / 10 % 10);
    *at++ = (char)('0' + number % 10);
    *at++ = ':';
    return at;
}

/* What a satellite's key adds: the head that it is similar to. */
static char *put_head(char *at, const struct wn_synset *synset)
{
    for (uint32_t i = 0; i < synset->link_count; i++) {
        const struct wn_synset *head = synset->links[i].target;
        if (synset->links[i].type != WN_SIMILAR)
            continue;
        at = put_lemma(at, head->words[0].text);
        *at++ = ':';
        return put_two_digits(at, head->words[0].lex_id) - 1;
    }
    return at;
}

uint32_t counts_find(const struct wn_synset *synset, const struct wn_word *word)
{
    char key[2 * WN_LEMMA_BYTES_MAX + 32];
    char *at = put_lemma(key, word->text);

    *at++ = '%';
    *at++ = synset->satellite ? '5' : (char)('0' + synset->pos);
    *at++ = ':';
    at = put_two_digits(at, synset->lex_file);
    at = put_two_digits(at, word->lex_id);
    if (synset->satellite)
        at = put_head(at, synset);
    else
        *at++ = ':';
    return counts_slot(key_hash(key, (size_t)(at - key)))->count;
}
