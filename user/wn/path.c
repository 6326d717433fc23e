/*
 * path.c - a shortest way from one word to another, over pointers of all types.
 *
 * Breadth first, from all senses of the one word at once. What was visited is remembered in a
 * volatile table indexed by the synsets' numbers: how one came to it, which gives the way back.
 */
#include "wn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { UNSEEN, START, CAME };
struct visit {
    const struct wn_synset *from;
    uint8_t state, type, goal;
};

static struct {
    struct visit *visits;
    const struct wn_synset **queue;
    uint32_t count;                         /* synsets in all */
    uint32_t head, tail;                    /* of the queue */
} walk;

static const char *const type_names[WN_TYPE_END] = {
    "", "antonym", "hypernym", "hyponym", "instance of", "instance", "member of", "substance of",
    "part of", "member", "substance", "part", "entails", "causes", "similar", "participle of",
    "see also", "pertains to", "attribute", "verb group", "derivation", "topic", "usage", "region",
    "topic term", "usage term", "region term"
};

static int walk_begin(uint32_t count)
{
    free(walk.visits);
    free(walk.queue);
    walk.count = count;
    walk.head = walk.tail = 0;
    walk.visits = calloc(count, sizeof(*walk.visits));
    walk.queue = calloc(count, sizeof(*walk.queue));
    return walk.visits != NULL && walk.queue != NULL ? 0 : -ENOMEM;
}

static void walk_enter(const struct wn_synset *synset, const struct wn_synset *from, uint8_t type)
{
    if (synset->number >= walk.count || walk.visits[synset->number].state != UNSEEN)
        return;
    walk.visits[synset->number].state = from == NULL ? START : CAME;
    walk.visits[synset->number].from = from;
    walk.visits[synset->number].type = type;
    walk.queue[walk.tail++] = synset;
}

/* Enter, or mark as goals, all senses of a word and its base forms. How many there are. */
static uint32_t word_enter(const struct wn_root *root, const char *word, uint32_t pos, int goal)
{
    struct forms forms;
    uint32_t count = 0;

    forms_find(root, word, pos, &forms);
    for (int i = 0; i < forms.count; i++)
        for (uint32_t k = 0; k < forms.entries[i]->sense_count; k++) {
            const struct wn_synset *synset = forms.entries[i]->senses[k];
            if (!goal)
                walk_enter(synset, NULL, 0);
            else if (synset->number < walk.count)
                walk.visits[synset->number].goal = 1;
            count++;
        }
    return count;
}

static uint32_t senses_enter(const struct wn_root *root, const char *word, int goal)
{
    struct bases bases;
    uint32_t count = 0;

    for (uint32_t pos = WN_NOUN; pos < WN_POS_END; pos++) {
        count += word_enter(root, word, pos, goal);
        bases_find(root, word, pos, &bases);
        for (int i = 0; i < bases.count; i++)
            count += word_enter(root, bases.words[i], pos, goal);
    }
    return count;
}

static const struct wn_synset *walk_on(void)
{
    while (walk.head < walk.tail) {
        const struct wn_synset *synset = walk.queue[walk.head++];
        if (walk.visits[synset->number].goal)
            return synset;
        for (uint32_t i = 0; i < synset->link_count; i++)
            walk_enter(synset->links[i].target, synset, synset->links[i].type);
    }
    return NULL;
}

static void words_print(struct text *out, const struct wn_synset *synset)
{
    size_t begin = out->used;
    for (uint32_t i = 0; i < synset->word_count; i++) {
        text_add(out, i > 0 ? ", " : "");
        text_add_bytes(out, synset->words[i].text, strcspn(synset->words[i].text, "("));
    }
    text_replace(out, begin, '_', ' ');
    text_add(out, " (");
    text_add(out, pos_names[synset->pos]);
    text_add(out, ")\n");
}

/* The way to a synset, from its start on; how many steps it has. Recursion as deep as the way. */
static uint32_t way_print(struct text *out, const struct wn_synset *synset)
{
    const struct visit *visit = &walk.visits[synset->number];
    uint32_t steps = 0;

    if (visit->from != NULL) {
        steps = way_print(out, visit->from) + 1;
        text_add(out, "  ");
        text_add(out, type_names[visit->type]);
        text_add(out, ": ");
    }
    words_print(out, synset);
    return steps;
}

int path_find(const struct wn_root *root, const char *from, const char *to, struct text *out)
{
    int error = walk_begin(root->synset_count);
    if (error != 0)
        return error;
    if (senses_enter(root, from, 0) == 0 || senses_enter(root, to, 1) == 0)
        return 1;
    const struct wn_synset *goal = walk_on();
    if (goal == NULL)
        return 1;
    uint32_t steps = way_print(out, goal);
    text_add_number(out, steps, 1);
    text_add(out, steps == 1 ? " step\n" : " steps\n");
    return 0;
}
