/*
 * print.c - a synset as text, in the format of the wordnet package's tool.
 */
#include "wn.h"

#include <string.h>

const char *const pos_names[WN_POS_END] = {"", "noun", "verb", "adj", "adv"};

const char *const lex_files[45] = {
    "adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact",
    "noun.attribute", "noun.body", "noun.cognition", "noun.communication", "noun.event",
    "noun.feeling", "noun.food", "noun.group", "noun.location", "noun.motive", "noun.object",
    "noun.person", "noun.phenomenon", "noun.plant", "noun.possession", "noun.process",
    "noun.quantity", "noun.relation", "noun.shape", "noun.state", "noun.substance", "noun.time",
    "verb.body", "verb.change", "verb.cognition", "verb.communication", "verb.competition",
    "verb.consumption", "verb.contact", "verb.creation", "verb.emotion", "verb.motion",
    "verb.perception", "verb.possession", "verb.social", "verb.stative", "verb.weather", "adj.ppl"
};

const char *const frame_texts[36] = {
    "", "Something ----s", "Somebody ----s", "It is ----ing", "Something is ----ing PP",
    "Something ----s something Adjective/Noun", "Something ----s Adjective/Noun",
    "Somebody ----s Adjective", "Somebody ----s something", "Somebody ----s somebody",
    "Something ----s somebody", "Something ----s something", "Something ----s to somebody",
    "Somebody ----s on something", "Somebody ----s somebody something",
    "Somebody ----s something to somebody", "Somebody ----s something from somebody",
    "Somebody ----s somebody with something", "Somebody ----s somebody of something",
    "Somebody ----s something on somebody", "Somebody ----s somebody PP",
    "Somebody ----s something PP", "Somebody ----s PP", "Somebody's (body part) ----s",
    "Somebody ----s somebody to INFINITIVE", "Somebody ----s somebody INFINITIVE",
    "Somebody ----s that CLAUSE", "Somebody ----s to somebody", "Somebody ----s to INFINITIVE",
    "Somebody ----s whether INFINITIVE", "Somebody ----s somebody into V-ing something",
    "Somebody ----s something with something", "Somebody ----s INFINITIVE",
    "Somebody ----s VERB-ing", "It ----s that CLAUSE", "Something ----s INFINITIVE"
};

/* "galore(ip)" is printed as "galore", with "(postnominal)" where markers are wanted. */
static void marker_print(struct query *q, const char *word)
{
    const char *mark = strchr(word, '(');
    if (mark == NULL)
        return;
    if (strncmp(mark, "(a)", 3) == 0)
        text_add(&q->out, "(prenominal)");
    else if (strncmp(mark, "(ip)", 4) == 0)
        text_add(&q->out, "(postnominal)");
    else if (strncmp(mark, "(p)", 3) == 0)
        text_add(&q->out, "(predicate)");
}

/* A word (counts from 0) with what -a and -s add to it. */
static void word_print(struct query *q, const struct wn_synset *synset, uint32_t word)
{
    if (word >= synset->word_count)
        return;
    const struct wn_word *w = &synset->words[word];
    text_add_bytes(&q->out, w->text, strcspn(w->text, "("));
    if (q->show_file && w->lex_id != 0)
        text_add_number(&q->out, w->lex_id, 1);
    if (q->show_senses) {
        text_add(&q->out, "#");
        text_add_number(&q->out, sense_number(q->root, synset, word), 1);
    }
}

/* The antonyms of a word (counts from 1; 0: of the synset) that point back at it, each between
 * before and after, with a separator in between. */
static void antonyms_print(struct query *q, const struct wn_synset *synset, uint32_t word,
                           const char *before, const char *after, const char *separator)
{
    int any = 0;

    for (uint32_t i = 0; i < synset->link_count; i++) {
        const struct wn_link *there = &synset->links[i];
        if (there->type != WN_ANTONYM || there->source_word != word)
            continue;
        for (uint32_t j = 0; j < there->target->link_count; j++) {
            const struct wn_link *back = &there->target->links[j];
            if (back->type != WN_ANTONYM || back->target != synset || back->target_word != word)
                continue;
            text_add(&q->out, any ? separator : "");
            text_add(&q->out, before);
            word_print(q, there->target, back->source_word != 0 ? back->source_word - 1 : 0);
            text_add(&q->out, after);
            any = 1;
        }
    }
}

/* The gloss in parentheses, runs of blanks as one. */
static void gloss_print(struct query *q, const struct wn_synset *synset)
{
    text_add(&q->out, " -- (");
    for (const char *at = synset->gloss + strspn(synset->gloss, " "); *at != 0;) {
        size_t bytes = strcspn(at, " ");
        text_add_bytes(&q->out, at, bytes);
        at += bytes + strspn(at + bytes, " ");
        text_add(&q->out, *at != 0 ? " " : "");
    }
    text_add(&q->out, ")");
}

static void prefix_print(struct query *q, const struct wn_synset *synset)
{
    if (q->show_offset) {
        text_add(&q->out, "{");
        text_add_number(&q->out, synset->file_offset, 8);
        text_add(&q->out, "} ");
    }
    if (q->show_file) {
        text_add(&q->out, "<");
        text_add(&q->out, synset->lex_file < 45 ? lex_files[synset->lex_file] : "?");
        text_add(&q->out, "> ");
    }
}

void synset_print(struct query *q, const char *head, const struct wn_synset *synset,
                  uint32_t only_word, int with, const char *tail)
{
    uint32_t first = only_word != 0 ? only_word - 1 : 0;
    uint32_t end = only_word != 0 ? only_word : synset->word_count;

    text_add(&q->out, head);
    prefix_print(q, synset);
    for (uint32_t i = first; i < end && i < synset->word_count; i++) {
        text_add(&q->out, i > first ? ", " : "");
        word_print(q, synset, i);
        if (synset->pos == WN_ADJ && (with & WITH_MARKERS))
            marker_print(q, synset->words[i].text);
        if (synset->pos == WN_ADJ && (with & WITH_ANTONYMS))
            antonyms_print(q, synset, i + 1, " (vs. ", ")", "");
    }
    if ((with & WITH_GLOSS) && q->show_gloss)
        gloss_print(q, synset);
    text_add(&q->out, tail);
}

/* An indirect antonym: the head of the opposite cluster, and through which words. */
void antonym_cluster_print(struct query *q, const struct wn_synset *synset)
{
    prefix_print(q, synset);
    text_add(&q->out, "INDIRECT (VIA ");
    for (uint32_t i = 0; i < synset->word_count; i++)
        antonyms_print(q, synset, i + 1, i > 0 ? ", " : "", "", ", ");
    text_add(&q->out, ") -> ");
    for (uint32_t i = 0; i < synset->word_count; i++) {
        text_add(&q->out, i > 0 ? ", " : "");
        word_print(q, synset, i);
    }
    if (q->show_gloss)
        gloss_print(q, synset);
    text_add(&q->out, "\n");
}

void heading_print(struct query *q, const struct wn_synset *synset, uint32_t sense)
{
    text_add(&q->out, "\nSense ");
    text_add_number(&q->out, sense, 1);
    text_add(&q->out, "\n");
    q->form_senses++;
    q->found++;
    synset_print(q, "", synset, 0, WITH_GLOSS | WITH_ANTONYMS | WITH_MARKERS, "\n");
}
