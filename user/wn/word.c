/*
 * word.c - searches that look at a word as a whole, not at each of its senses.
 */
#include "wn.h"

#include <stdio.h>
#include <string.h>

/* How many senses a word has, in words. */
void familiarity_print(struct query *q, uint32_t pos, const struct forms *forms)
{
    static const char *const articles[WN_POS_END] = {
        "", "a noun", "a verb", "an adjective", "an adverb"
    };
    static const struct { uint32_t most; const char *name; } steps[] = {
        {0, "extremely rare"}, {1, "very rare"}, {2, "rare"}, {4, "uncommon"}, {8, "common"},
        {16, "familiar"}, {32, "very familiar"}, {UINT32_MAX, "extremely familiar"}
    };
    char line[WN_LEMMA_BYTES_MAX + 96];

    for (int i = 0; i < forms->count; i++) {
        const struct wn_entry *entry = forms->entries[i];
        int step = 0;
        while (entry->sense_count > steps[step].most)
            step++;
        snprintf(line, sizeof(line), "\n%s used as %s is %s (polysemy count = %u)\n", entry->lemma,
                 articles[pos], steps[step].name, entry->sense_count);
        text_add(&q->out, line);
        q->found++;
    }
}

/* ---- verbs grouped by similarity ---- */

#define GROUPS_MAX 64
#define GROUP_SENSES_MAX 128
static struct {
    uint8_t has[GROUPS_MAX][GROUP_SENSES_MAX];
    int count;
} groups;

/* Two senses belong together: in the group that has one of them, else in a new one. */
static void group_add(uint32_t a, uint32_t b)
{
    for (int g = 0; g < groups.count; g++) {
        if (!groups.has[g][a] && !groups.has[g][b])
            continue;
        groups.has[g][a] = groups.has[g][b] = 1;
        for (int other = 0; other < groups.count; other++)
            for (int i = 0; i < GROUP_SENSES_MAX; i++)
                if (other != g && (groups.has[other][a] || groups.has[other][b]))
                    groups.has[g][i] |= groups.has[other][i];
        return;
    }
    if (groups.count == GROUPS_MAX)
        return;
    memset(groups.has[groups.count], 0, GROUP_SENSES_MAX);
    groups.has[groups.count][a] = groups.has[groups.count][b] = 1;
    groups.count++;
}

static void groups_find(const struct wn_entry *entry, uint32_t senses)
{
    groups.count = 0;
    for (uint32_t a = 0; a < senses; a++) {
        const struct wn_synset *synset = entry->senses[a];
        for (uint32_t i = 0; i < synset->link_count; i++)
            for (uint32_t b = 0; b < senses && synset->links[i].type == WN_VERB_GROUP; b++)
                if (entry->senses[b] == synset->links[i].target) {
                    group_add(a, b);
                    break;
                }
    }
}

static void group_sense_print(struct query *q, const struct wn_entry *entry, uint32_t sense)
{
    heading_print(q, entry->senses[sense], sense + 1);
    trace_links(q, entry->senses[sense], 0, WN_HYPERNYM, WN_VERB, 0);
}

/* The senses of a verb, those together that WordNet groups. */
void similar_verbs_print(struct query *q, const struct wn_entry *entry)
{
    uint8_t shown[GROUP_SENSES_MAX] = {0};
    uint32_t senses = entry->sense_count < GROUP_SENSES_MAX ? entry->sense_count : GROUP_SENSES_MAX;

    groups_find(entry, senses);
    q->heading_shown = 1;
    for (int g = 0; g < groups.count; g++) {
        int any = 0;
        for (uint32_t i = 0; i < senses; i++) {
            if (!groups.has[g][i] || shown[i])
                continue;
            group_sense_print(q, entry, i);
            any = shown[i] = 1;
        }
        text_add(&q->out, any ? "--------------\n" : "");
    }
    for (uint32_t i = 0; i < senses; i++) {
        if (shown[i])
            continue;
        group_sense_print(q, entry, i);
        text_add(&q->out, "--------------\n");
    }
}

/* ---- compounds ---- */

static int is_gap(char c)
{
    return c == '-' || c == '_';
}

/* Is the word at the lemma's begin or end, or between gaps within it? */
static int has_word(const char *lemma, const char *word, size_t bytes)
{
    size_t lemma_bytes = strlen(lemma);
    for (const char *at = lemma; (at = strstr(at, word)) != NULL; at++)
        if (at == lemma || at + bytes == lemma + lemma_bytes ||
            (is_gap(at[-1]) && is_gap(at[bytes])))
            return 1;
    return 0;
}

/* All words and collocations with this word in them. */
void compounds_print(struct query *q, const char *word, uint32_t pos)
{
    char key[WN_LEMMA_BYTES_MAX];

    if (word_key(word, key) != 0)
        return;
    for (const struct wn_batch *b = q->root->first; b != NULL; b = b->next)
        for (uint32_t i = 0; b->kind == WN_ENTRIES + pos && i < b->count; i++) {
            const struct wn_entry *entry = b->objects[i];
            if (!has_word(entry->lemma, key, strlen(key)))
                continue;
            text_add(&q->out, entry->lemma);
            text_add(&q->out, "\n");
            q->found++;
        }
}
