/*
 * check.c - walks the whole store: counts what is there, and checks WN1 to WN4 of wordnet.h.
 */
#include "wn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMPLAINTS_MAX 10

static struct {
    const struct wn_root *root;
    void *const *synsets;                   /* volatile: address by number */
    struct text *out;
    int faults;
} check;

static int is_synsets(const struct wn_batch *b)
{
    return b->kind > WN_SYNSETS && b->kind < WN_POS_END;
}

static int is_entries(const struct wn_batch *b)
{
    return b->kind > WN_ENTRIES && b->kind < WN_ENTRIES + WN_POS_END;
}

void counts_print(const struct wn_root *root, struct text *out)
{
    uint32_t synsets = 0, entries = 0, senses = 0, pointers = 0;

    for (const struct wn_batch *b = root->first; b != NULL; b = b->next) {
        entries += is_entries(b) ? b->count : 0;
        for (uint32_t i = 0; is_synsets(b) && i < b->count; i++) {
            const struct wn_synset *synset = b->objects[i];
            synsets++;
            senses += synset->word_count;
            pointers += synset->link_count;
        }
    }
    text_add(out, "synsets ");
    text_add_number(out, synsets, 1);
    text_add(out, "\nindex entries ");
    text_add_number(out, entries, 1);
    text_add(out, "\nsenses ");
    text_add_number(out, senses, 1);
    text_add(out, "\npointers ");
    text_add_number(out, pointers, 1);
    text_add(out, "\n");
}

static void complain(const char *invariant, const char *what, const char *about)
{
    if (check.faults++ >= COMPLAINTS_MAX)
        return;
    text_add(check.out, invariant);
    text_add(check.out, ": ");
    text_add(check.out, what);
    text_add(check.out, ": ");
    text_add(check.out, about);
    text_add(check.out, "\n");
}

/* Is this the address of a synset? It is not followed before that is known. */
static int is_synset(const struct wn_synset *p, void *const *sorted, uint32_t count)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uintptr_t)sorted[middle] < (uintptr_t)p)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && sorted[low] == p;
}

static int address_order(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* WN1, WN2 */
static void synset_check(const struct wn_synset *synset, uint32_t number)
{
    const char *name = synset->word_count > 0 ? synset->words[0].text : "(no words)";

    if (synset->number != number)
        complain("WN2", "a synset in another one's place", name);
    for (uint32_t i = 0; i < synset->link_count; i++) {
        const struct wn_link *link = &synset->links[i];
        if (!is_synset(link->target, check.synsets, check.root->synset_count)) {
            complain("WN1", "a pointer leads to no synset", name);
            continue;
        }
        if (link->type == 0 || link->type >= WN_TYPE_END ||
            link->source_word > synset->word_count ||
            link->target_word > link->target->word_count)
            complain("WN1", "a pointer names no word", name);
    }
}

static int has_lemma(const struct wn_synset *synset, const char *lemma)
{
    char key[WN_LEMMA_BYTES_MAX];
    for (uint32_t i = 0; i < synset->word_count; i++)
        if (word_key(synset->words[i].text, key) == 0 && strcmp(key, lemma) == 0)
            return 1;
    return 0;
}

/* WN3, WN4 */
static void entry_check(const struct wn_entry *entry, uint32_t kind)
{
    if (directory_find(check.root, entry->lemma, kind) != entry)
        complain("WN4", "not found by the directory", entry->lemma);
    for (uint32_t i = 0; i < entry->sense_count; i++) {
        const struct wn_synset *synset = entry->senses[i];
        if (!is_synset(synset, check.synsets, check.root->synset_count))
            complain("WN3", "a sense leads to no synset", entry->lemma);
        else if (!has_lemma(synset, entry->lemma) || synset->pos != kind - WN_ENTRIES)
            complain("WN3", "a sense without the word", entry->lemma);
    }
}

/* The addresses of all synsets, ascending; NULL: no memory, or the batches hold another count. */
static void **addresses_sorted(const struct wn_root *root)
{
    void **sorted = malloc((root->synset_count + 1) * sizeof(*sorted));
    uint32_t count = 0;

    for (const struct wn_batch *b = root->first; sorted != NULL && b != NULL; b = b->next) {
        if (!is_synsets(b))
            continue;
        if (b->count > WN_BATCH_OBJECTS || count + b->count > root->synset_count) {
            complain("WN2", "more synsets than the root counts", "batches");
            break;
        }
        memcpy(sorted + count, b->objects, b->count * sizeof(*sorted));
        count += b->count;
    }
    if (sorted != NULL && count != root->synset_count) {
        complain("WN2", "fewer synsets than the root counts", "batches");
        free(sorted);
        return NULL;
    }
    if (sorted != NULL)
        qsort(sorted, count, sizeof(*sorted), address_order);
    return sorted;
}

int check_all(const struct wn_root *root, struct text *out)
{
    static void **sorted;
    uint32_t number = 0;

    check.root = root;
    check.out = out;
    check.faults = 0;
    free(sorted);
    sorted = addresses_sorted(root);
    check.synsets = sorted;
    if (sorted == NULL)
        return check.faults > 0 ? check.faults : -ENOMEM;
    for (const struct wn_batch *b = root->first; b != NULL; b = b->next)
        for (uint32_t i = 0; i < b->count; i++) {
            if (is_synsets(b))
                synset_check(b->objects[i], number++);
            else if (is_entries(b))
                entry_check(b->objects[i], b->kind);
            else if (directory_find(root, ((const struct wn_note *)b->objects[i])->key, b->kind) ==
                     NULL)
                complain("WN4", "not found by the directory",
                         ((const struct wn_note *)b->objects[i])->key);
        }
    return check.faults;
}
