/*
 * trace.c - follows links from a synset and prints what they lead to.
 *
 * Nothing is looked up on the way: each step is a pointer in the container.
 */
#include "wn.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 20                        /* there are cycles among the verbs */
#define ALL (WITH_GLOSS | WITH_ANTONYMS | WITH_MARKERS)

static void indent(struct query *q, int depth)
{
    for (int i = 0; i < depth; i++)
        text_add(&q->out, "    ");
    text_add(&q->out, depth != 0 ? "   " : "       ");
}

/* The sense's heading, before the first thing that is found for it. */
static void heading_once(struct query *q, const struct wn_synset *synset)
{
    if (!q->heading_shown)
        heading_print(q, synset, q->sense + 1);
    q->heading_shown = 1;
}

/* A depth to go on with; -1, which ends the walk after one more step, at the limit. */
static int depth_checked(int depth, const struct wn_synset *synset)
{
    if (depth < DEPTH_MAX)
        return depth;
    fprintf(stderr, "wn: the pointers go round in a circle at %s\n", synset->words[0].text);
    return -1;
}

static int link_wanted(const struct wn_link *link, uint32_t type, uint32_t which)
{
    if (type == WN_HYPERNYM)
        return link->type == WN_HYPERNYM || link->type == WN_INSTANCE;
    if (type == WN_HYPONYM)
        return link->type == WN_HYPONYM || link->type == WN_INSTANCES;
    return link->type == type && (link->source_word == 0 || link->source_word == which);
}

static void link_prefix(char prefix[40], const struct wn_link *link, uint32_t pos)
{
    static const char *const prefixes[WN_TYPE_END] = {
        [WN_ANTONYM] = "Antonym of ", [WN_PARTICIPLE] = "Participle of verb ",
        [WN_INSTANCE] = "INSTANCE OF=> ", [WN_INSTANCES] = "HAS INSTANCE=> ",
        [WN_HAS_MEMBER] = "   HAS MEMBER: ", [WN_HAS_SUBSTANCE] = "   HAS SUBSTANCE: ",
        [WN_HAS_PART] = "   HAS PART: ", [WN_MEMBER_OF] = "   MEMBER OF: ",
        [WN_SUBSTANCE_OF] = "   SUBSTANCE OF: ", [WN_PART_OF] = "   PART OF: "
    };
    if (link->type == WN_PERTAINYM)
        snprintf(prefix, 40, "%s %s ", pos == WN_ADV ? "Derived from" : "Pertains to",
                 pos_names[link->target->pos]);
    else
        snprintf(prefix, 40, "%s", prefixes[link->type] ? prefixes[link->type] : "=> ");
}

/* A link from word to word: the other word with its sense, then all of its synset. */
static void word_link_print(struct query *q, const char *prefix, const struct wn_link *link,
                            uint32_t pos)
{
    const struct wn_synset *target = link->target;
    int with = ALL;
    char tail[32];

    snprintf(tail, sizeof(tail), " (Sense %u)\n",
             sense_number(q->root, target, link->target_word - 1u));
    synset_print(q, prefix, target, link->target_word, WITH_MARKERS, tail);
    if (link->type != WN_ANTONYM && pos == WN_ADV && target->satellite)
        with &= ~WITH_ANTONYMS;
    synset_print(q, "      =>", target, 0, with, "\n");
    if (link->type != WN_ANTONYM && (link->type == WN_PARTICIPLE || pos != WN_ADV))
        trace_links(q, target, 0, WN_HYPERNYM, target->pos, 0);
}

void trace_links(struct query *q, const struct wn_synset *synset, uint32_t which, uint32_t type,
                 uint32_t pos, int depth)
{
    char prefix[40];

    for (uint32_t i = 0; i < synset->link_count; i++) {
        const struct wn_link *link = &synset->links[i];
        if (!link_wanted(link, type, which))
            continue;
        heading_once(q, synset);
        indent(q, depth);
        link_prefix(prefix, link, pos);
        if (link->target_word != 0 && (type == WN_PERTAINYM || type == WN_PARTICIPLE ||
                                       (type == WN_ANTONYM && pos != WN_ADJ)))
            word_link_print(q, prefix, link, pos);
        else
            synset_print(q, prefix, link->target, 0, ALL, "\n");
        if (type >= WN_MEMBER_OF && type <= WN_HAS_PART)
            q->last_part = q->out.used;
        if (depth != 0) {
            depth = depth_checked(depth, link->target);
            trace_links(q, link->target, 0, type, link->target->pos, depth + 1);
        }
    }
}

/* Coordinate terms: the other hyponyms of each hypernym. */
void trace_sisters(struct query *q, const struct wn_synset *synset, uint32_t which)
{
    for (uint32_t i = 0; i < synset->link_count; i++) {
        const struct wn_link *link = &synset->links[i];
        if ((link->type != WN_HYPERNYM && link->type != WN_INSTANCE) ||
            (link->source_word != 0 && link->source_word != which))
            continue;
        heading_once(q, synset);
        text_add(&q->out, "    ");
        synset_print(q, "-> ", link->target, 0, WITH_GLOSS | WITH_MARKERS, "\n");
        trace_links(q, link->target, 0, WN_HYPONYM, link->target->pos, 0);
    }
}

/* Has an earlier link of these three types the same target? */
static int shown_before(const struct wn_synset *synset, uint32_t link, uint32_t first)
{
    for (uint32_t i = 0; i < link; i++)
        if (synset->links[i].type >= first && synset->links[i].type < first + 3 &&
            synset->links[i].target->file_offset == synset->links[link].target->file_offset)
            return 1;
    return 0;
}

/* The domains of a synset (first is WN_TOPIC) or the terms of a domain (WN_TOPIC_TERM). */
void trace_domains(struct query *q, const struct wn_synset *synset, uint32_t first)
{
    static const char *const heads[] = {"TOPIC", "USAGE", "REGION"};
    char head[40];

    for (uint32_t i = 0; i < synset->link_count; i++) {
        const struct wn_link *link = &synset->links[i];
        if (link->type < first || link->type >= first + 3)
            continue;
        heading_once(q, synset);
        if (shown_before(synset, i, first))
            continue;
        indent(q, 0);
        snprintf(head, sizeof(head), "%s%s->(%s) ", heads[link->type - first],
                 first == WN_TOPIC_TERM ? "_TERM" : "", pos_names[link->target->pos]);
        int show_senses = q->show_senses;
        q->show_senses = 1;
        synset_print(q, head, link->target, 0, 0, "\n");
        q->show_senses = show_senses;
    }
}

/* Derivationally related forms of the word itself. */
void trace_derivations(struct query *q, const struct wn_synset *synset, uint32_t which)
{
    char head[40], tail[16];

    for (uint32_t i = 0; i < synset->link_count; i++) {
        const struct wn_link *link = &synset->links[i];
        if (link->type != WN_DERIVATION || link->source_word != which)
            continue;
        heading_once(q, synset);
        indent(q, 0);
        snprintf(head, sizeof(head), "RELATED TO->(%s) ", pos_names[link->target->pos]);
        snprintf(tail, sizeof(tail), "#%u\n",
                 sense_number(q->root, link->target, link->target_word - 1u));
        synset_print(q, head, link->target, link->target_word, 0, tail);
        indent(q, 2);
        synset_print(q, "=> ", link->target, 0, WITH_GLOSS | WITH_MARKERS, "\n");
    }
}

/* Parts that the hypernyms have. What follows the last part is cut off again. */
static void trace_inherited(struct query *q, const struct wn_synset *synset, uint32_t which,
                            uint32_t first, int depth)
{
    for (uint32_t i = 0; i < synset->link_count; i++) {
        const struct wn_link *link = &synset->links[i];
        if (link->type != WN_HYPERNYM || (link->source_word != 0 && link->source_word != which))
            continue;
        heading_once(q, synset);
        for (int k = 0; k < depth; k++)
            text_add(&q->out, "    ");
        synset_print(q, "=> ", link->target, 0, ALL, "\n");
        for (uint32_t type = first; type < first + 3; type++)
            trace_links(q, link->target, 0, type, WN_NOUN, depth);
        depth = depth_checked(depth, link->target);
        trace_inherited(q, link->target, 0, first, depth + 1);
    }
    text_cut(&q->out, q->last_part);
}

/* All levels of parts (first is WN_HAS_MEMBER, inherited ones too) or of wholes (WN_MEMBER_OF). */
void trace_parts(struct query *q, const struct wn_synset *synset, uint32_t which, uint32_t first)
{
    for (uint32_t type = first; type < first + 3; type++)
        trace_links(q, synset, which, type, WN_NOUN, 1);
    if (first == WN_HAS_MEMBER) {
        q->last_part = q->out.used;
        trace_inherited(q, synset, which, first, 1);
    }
}

static const struct wn_synset *first_target(const struct wn_synset *synset, uint32_t type)
{
    for (uint32_t i = 0; i < synset->link_count; i++)
        if (synset->links[i].type == type)
            return synset->links[i].target;
    return NULL;
}

/* Adjectives: direct antonyms with what is similar to them; for a satellite its head's. */
void trace_antonyms(struct query *q, const struct wn_synset *synset, uint32_t which)
{
    const struct wn_synset *head =
        synset->satellite ? first_target(synset, WN_SIMILAR) : synset;

    if (head == NULL || (!synset->satellite && first_target(synset, WN_ANTONYM) == NULL))
        return;
    heading_print(q, synset, q->sense + 1);
    text_add(&q->out, "\n");
    for (uint32_t i = 0; i < head->link_count; i++) {
        const struct wn_link *link = &head->links[i];
        if (link->type != WN_ANTONYM)
            continue;
        if (synset->satellite) {
            antonym_cluster_print(q, link->target);
            continue;
        }
        if (link->source_word != which)
            continue;
        synset_print(q, "", link->target, 0, ALL, "\n");
        for (uint32_t j = 0; j < link->target->link_count; j++)
            if (link->target->links[j].type == WN_SIMILAR)
                synset_print(q, "        => ", link->target->links[j].target, 0,
                             WITH_GLOSS | WITH_MARKERS, "\n");
    }
}

void print_see_also(struct query *q, const struct wn_synset *synset, uint32_t which)
{
    const char *head = synset->pos == WN_VERB ? "          Phrasal Verb-> "
                                              : "          Also See-> ";
    int any = 0, show_senses = q->show_senses;

    q->show_senses = 1;
    for (uint32_t i = 0; i < synset->link_count; i++) {
        const struct wn_link *link = &synset->links[i];
        if (link->type != WN_SEE_ALSO || (link->source_word != 0 && link->source_word != which))
            continue;
        synset_print(q, any ? "; " : head, link->target, link->target_word, 0, "");
        any = 1;
    }
    q->show_senses = show_senses;
    text_add(&q->out, any ? "\n" : "");
}

/* A sentence's number list: "126,127". Each sentence with the word in it. */
static void examples_print(struct query *q, const char *numbers, const char *word)
{
    char number[16];

    for (size_t bytes; *numbers != 0; numbers += bytes + strspn(numbers + bytes, ", ")) {
        bytes = strcspn(numbers, ", ");
        snprintf(number, sizeof(number), "%.*s", (int)bytes, numbers);
        const struct wn_note *sentence = directory_find(q->root, number, WN_SENTENCES);
        if (sentence == NULL)
            continue;
        const char *hole = strstr(sentence->value, "%s");
        text_add(&q->out, "          EX:  ");
        text_add_bytes(&q->out, sentence->value,
                       hole != NULL ? (size_t)(hole - sentence->value) : strlen(sentence->value));
        if (hole != NULL) {
            text_add(&q->out, word);
            text_add(&q->out, hole + 2);
        }
        text_add(&q->out, "\n");
    }
}

/* Example sentences of a verb, or, if there are none, its sentence frames. */
void print_frames(struct query *q, const struct wn_synset *synset, uint32_t which)
{
    char key[WN_LEMMA_BYTES_MAX + 16];

    heading_print(q, synset, q->sense + 1);
    if (which != 0) {
        const struct wn_word *word = &synset->words[which - 1];
        snprintf(key, sizeof(key), "%s%%%d:%02d:%02d::", word->text, synset->pos,
                 synset->lex_file, word->lex_id);
        const struct wn_note *example = directory_find(q->root, key, WN_EXAMPLES);
        if (example != NULL) {
            examples_print(q, example->value, word->text);
            return;
        }
    }
    for (uint32_t i = 0; i < synset->frame_count; i++) {
        const struct wn_frame *frame = &synset->frames[i];
        if (frame->number > 35 || (frame->word != 0 && frame->word != which))
            continue;
        text_add(&q->out, frame->word == which ? "          => " : "          *> ");
        text_add(&q->out, frame_texts[frame->number]);
        text_add(&q->out, "\n");
    }
}
