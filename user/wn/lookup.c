/*
 * lookup.c - from a word to its index entries, through the hash directory.
 *
 * A probe reads one page of the directory, and one page for the object that it finds; keys with
 * another hash are passed over without touching their objects. All parts of speech of a word, and
 * its exceptions, begin at the same slot.
 */
#include "wn.h"

#include <string.h>

/* The slot at an index; the segments are a power of two in number. */
static const struct wn_slot *slot_at(const struct wn_root *root, uint32_t index)
{
    return &root->segments[index / WN_SEGMENT_SLOTS]->slots[index % WN_SEGMENT_SLOTS];
}

const void *directory_find(const struct wn_root *root, const char *key, uint32_t kind)
{
    uint32_t count = root->segment_count * WN_SEGMENT_SLOTS;
    uint32_t hash = wn_hash(key, strlen(key));
    uint32_t i = wn_slot_first(hash, count);

    for (;; i = (i + 1) & (count - 1)) {
        const struct wn_slot *slot = slot_at(root, i);
        if (slot->object == NULL)
            return NULL;
        if (slot->hash != hash || slot->kind != kind)
            continue;
        const char *const *object_key = slot->object;   /* entries and notes begin with it */
        if (strcmp(*object_key, key) == 0)
            return slot->object;
    }
}

const struct wn_entry *entry_find(const struct wn_root *root, const char *lemma, uint32_t pos)
{
    return directory_find(root, lemma, WN_ENTRIES + pos);
}

int word_key(const char *word, char key[WN_LEMMA_BYTES_MAX])
{
    size_t i = 0;
    for (; word[i] != 0 && word[i] != '('; i++) {
        if (i == WN_LEMMA_BYTES_MAX - 1)
            return -1;
        key[i] = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] - 'A' + 'a') : word[i];
        if (key[i] == ' ')
            key[i] = '_';
    }
    key[i] = 0;
    return 0;
}

/* The word with each `old` turned into `new`; new 0 leaves it out. */
static void respell(const char *word, char *out, char old, char new)
{
    for (; *word != 0; word++) {
        if (*word != old)
            *out++ = *word;
        else if (new != 0)
            *out++ = new;
    }
    *out = 0;
}

void forms_find(const struct wn_root *root, const char *word, uint32_t pos, struct forms *forms)
{
    char spelled[FORMS_MAX][WN_LEMMA_BYTES_MAX], joined[WN_LEMMA_BYTES_MAX];

    forms->count = 0;
    if (word_key(word, spelled[0]) != 0)
        return;
    respell(spelled[0], spelled[1], '_', '-');
    respell(spelled[0], spelled[2], '-', '_');
    respell(spelled[0], joined, '_', 0);
    respell(joined, spelled[3], '-', 0);
    respell(spelled[0], spelled[4], '.', 0);
    for (int i = 0; i < FORMS_MAX; i++) {
        if (spelled[i][0] == 0 || (i > 0 && strcmp(spelled[i], spelled[0]) == 0))
            continue;
        const struct wn_entry *entry = entry_find(root, spelled[i], pos);
        if (entry != NULL)
            forms->entries[forms->count++] = entry;
    }
}

int word_defined(const struct wn_root *root, const char *word, uint32_t pos)
{
    struct forms forms;
    forms_find(root, word, pos, &forms);
    return forms.count > 0;
}

uint32_t sense_number(const struct wn_root *root, const struct wn_synset *synset, uint32_t word)
{
    char key[WN_LEMMA_BYTES_MAX];

    if (word >= synset->word_count || word_key(synset->words[word].text, key) != 0)
        return 0;
    const struct wn_entry *entry = entry_find(root, key, synset->pos);
    for (uint32_t i = 0; entry != NULL && i < entry->sense_count; i++)
        if (entry->senses[i] == synset)
            return i + 1;
    return 0;
}
