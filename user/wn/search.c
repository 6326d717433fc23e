/*
 * search.c - the searches: which spellings of a word, which of their senses, and what of each.
 */
#include "wn.h"

#include "pstore.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BLANKS_24       "                        "
#define SEARCH_BLANKS   BLANKS_24 BLANKS_24 BLANKS_24 " "           /* 73 */
#define OVERVIEW_BLANKS SEARCH_BLANKS BLANKS_24 "  "                /* 99 */
#define SENSES_MAX 1024

/* What a search does with each sense; or, for those with a function of their own, with a word. */
enum what {
    LINKS, TREE, ANCESTORS, SYNONYMS, PERTAINYMS, ADJECTIVE_ANTONYMS, SISTERS, THREE_KINDS,
    ALL_PARTS, DERIVATIONS, DOMAINS, FRAMES, OVERVIEW, FAMILIARITY, GROUPS, COMPOUNDS
};

struct search {
    const char *option;
    enum what what;
    uint32_t type;
    uint32_t pos;                           /* 0: all */
    const char *label;
};

#define HYPERNYMS "Synonyms/Hypernyms (Ordered by Estimated Frequency)"
static const struct search searches[] = {
    {"-over",  OVERVIEW,    0,               0,       "Overview"},
    {"-hypen", ANCESTORS,   WN_HYPERNYM,     WN_NOUN, HYPERNYMS},
    {"-hypev", ANCESTORS,   WN_HYPERNYM,     WN_VERB, HYPERNYMS},
    {"-hypon", LINKS,       WN_HYPONYM,      WN_NOUN, "Hyponyms"},
    {"-hypov", LINKS,       WN_HYPONYM,      WN_VERB, "Troponyms (hyponyms)"},
    {"-treen", TREE,        WN_HYPONYM,      WN_NOUN, "Hyponyms"},
    {"-treev", TREE,        WN_HYPONYM,      WN_VERB, "Troponyms (hyponyms)"},
    {"-tropv", TREE,        WN_HYPONYM,      WN_VERB, "Troponyms (hyponyms)"},
    {"-synsn", SYNONYMS,    WN_HYPERNYM,     WN_NOUN, HYPERNYMS},
    {"-synsv", SYNONYMS,    WN_HYPERNYM,     WN_VERB, HYPERNYMS},
    {"-synsa", SYNONYMS,    WN_SIMILAR,      WN_ADJ,  "Similarity"},
    {"-synsr", SYNONYMS,    0,               WN_ADV,  "Synonyms"},
    {"-simsv", GROUPS,      WN_VERB_GROUP,   WN_VERB,
     "Synonyms (Grouped by Similarity of Meaning)"},
    {"-antsn", LINKS,       WN_ANTONYM,      WN_NOUN, "Antonyms"},
    {"-antsv", LINKS,       WN_ANTONYM,      WN_VERB, "Antonyms"},
    {"-antsa", ADJECTIVE_ANTONYMS, WN_ANTONYM, WN_ADJ, "Antonyms"},
    {"-antsr", LINKS,       WN_ANTONYM,      WN_ADV,  "Antonyms"},
    {"-coorn", SISTERS,     0,               WN_NOUN, "Coordinate Terms (sisters)"},
    {"-coorv", SISTERS,     0,               WN_VERB, "Coordinate Terms (sisters)"},
    {"-holon", THREE_KINDS, WN_MEMBER_OF,    WN_NOUN, "Holonyms"},
    {"-sprtn", LINKS,       WN_PART_OF,      WN_NOUN, "Part Holonyms"},
    {"-smemn", LINKS,       WN_MEMBER_OF,    WN_NOUN, "Member Holonyms"},
    {"-ssubn", LINKS,       WN_SUBSTANCE_OF, WN_NOUN, "Substance Holonyms"},
    {"-hholn", ALL_PARTS,   WN_MEMBER_OF,    WN_NOUN, "Holonyms"},
    {"-meron", THREE_KINDS, WN_HAS_MEMBER,   WN_NOUN, "Meronyms"},
    {"-subsn", LINKS,       WN_HAS_SUBSTANCE, WN_NOUN, "Substance Meronyms"},
    {"-partn", LINKS,       WN_HAS_PART,     WN_NOUN, "Part Meronyms"},
    {"-membn", LINKS,       WN_HAS_MEMBER,   WN_NOUN, "Member Meronyms"},
    {"-hmern", ALL_PARTS,   WN_HAS_MEMBER,   WN_NOUN, "Meronyms"},
    {"-entav", LINKS,       WN_ENTAILS,      WN_VERB, "Entailment"},
    {"-causv", LINKS,       WN_CAUSES,       WN_VERB, "'Cause To'"},
    {"-perta", PERTAINYMS,  WN_PERTAINYM,    WN_ADJ,  "Pertainyms"},
    {"-pertr", PERTAINYMS,  WN_PERTAINYM,    WN_ADV,  "Pertainyms"},
    {"-attrn", LINKS,       WN_ATTRIBUTE,    WN_NOUN, "Attributes"},
    {"-attra", LINKS,       WN_ATTRIBUTE,    WN_ADJ,  "Attributes"},
    {"-derin", DERIVATIONS, WN_DERIVATION,   WN_NOUN, "Derived Forms"},
    {"-deriv", DERIVATIONS, WN_DERIVATION,   WN_VERB, "Derived Forms"},
    {"-nomnn", DERIVATIONS, WN_DERIVATION,   WN_NOUN, "Derived Forms"},
    {"-nomnv", DERIVATIONS, WN_DERIVATION,   WN_VERB, "Derived Forms"},
    {"-domnn", DOMAINS,     WN_TOPIC,        WN_NOUN, "Domain"},
    {"-domnv", DOMAINS,     WN_TOPIC,        WN_VERB, "Domain"},
    {"-domna", DOMAINS,     WN_TOPIC,        WN_ADJ,  "Domain"},
    {"-domnr", DOMAINS,     WN_TOPIC,        WN_ADV,  "Domain"},
    {"-domtn", DOMAINS,     WN_TOPIC_TERM,   WN_NOUN, "Domain Terms"},
    {"-domtv", DOMAINS,     WN_TOPIC_TERM,   WN_VERB, "Domain Terms"},
    {"-domta", DOMAINS,     WN_TOPIC_TERM,   WN_ADJ,  "Domain Terms"},
    {"-domtr", DOMAINS,     WN_TOPIC_TERM,   WN_ADV,  "Domain Terms"},
    {"-famln", FAMILIARITY, 0,               WN_NOUN, "Familiarity"},
    {"-famlv", FAMILIARITY, 0,               WN_VERB, "Familiarity"},
    {"-famla", FAMILIARITY, 0,               WN_ADJ,  "Familiarity"},
    {"-famlr", FAMILIARITY, 0,               WN_ADV,  "Familiarity"},
    {"-framv", FRAMES,      0,               WN_VERB, "Sample Sentences"},
    {"-grepn", COMPOUNDS,   0,               WN_NOUN, "Grep"},
    {"-grepv", COMPOUNDS,   0,               WN_VERB, "Grep"},
    {"-grepa", COMPOUNDS,   0,               WN_ADJ,  "Grep"},
    {"-grepr", COMPOUNDS,   0,               WN_ADV,  "Grep"},
};

/* Synsets shown already under another spelling of the same word. */
static struct {
    const struct wn_synset *synsets[FORMS_MAX * SENSES_MAX];
    uint32_t count;
} seen;

static int seen_before(const struct wn_synset *synset)
{
    for (uint32_t i = 0; i < seen.count; i++)
        if (seen.synsets[i] == synset)
            return 1;
    if (seen.count == FORMS_MAX * SENSES_MAX)
        ps_abort(E2BIG);
    seen.synsets[seen.count++] = synset;
    return 0;
}

/* Which of the synset's words is the lemma, counts from 1; the last one if it comes twice. */
static uint32_t which_word(const struct wn_synset *synset, const char *lemma)
{
    char key[WN_LEMMA_BYTES_MAX];
    uint32_t which = 0;

    for (uint32_t i = 0; i < synset->word_count; i++)
        if (word_key(synset->words[i].text, key) == 0 && strcmp(key, lemma) == 0)
            which = i + 1;
    return which;
}

static uint32_t tag_count(const struct wn_entry *entry, uint32_t sense)
{
    uint32_t which = which_word(entry->senses[sense], entry->lemma);
    return which != 0 ? entry->senses[sense]->words[which - 1].tag_count : 0;
}

static void sense_search(struct query *q, const struct search *s, const struct wn_synset *synset,
                         uint32_t which)
{
    switch (s->what) {
    case TREE:
        trace_links(q, synset, which, s->type, s->pos, 1);
        break;
    case ANCESTORS:                         /* these three show a sense also without links */
    case SYNONYMS:
    case PERTAINYMS:
        heading_print(q, synset, q->sense + 1);
        q->heading_shown = 1;
        trace_links(q, synset, which, s->type, s->pos, s->what == ANCESTORS);
        if (s->what == SYNONYMS && s->pos == WN_ADJ)
            trace_links(q, synset, which, WN_PARTICIPLE, s->pos, 0);
        if (s->what != PERTAINYMS)
            print_see_also(q, synset, which);
        break;
    case ADJECTIVE_ANTONYMS:
        trace_antonyms(q, synset, which);
        break;
    case SISTERS:
        trace_sisters(q, synset, which);
        break;
    case THREE_KINDS:
        for (uint32_t type = s->type; type < s->type + 3; type++)
            trace_links(q, synset, which, type, s->pos, 0);
        break;
    case ALL_PARTS:
        trace_parts(q, synset, which, s->type);
        break;
    case DERIVATIONS:
        trace_derivations(q, synset, which);
        break;
    case DOMAINS:
        trace_domains(q, synset, s->type);
        break;
    case FRAMES:
        print_frames(q, synset, which);
        break;
    default:
        trace_links(q, synset, which, s->type, s->pos, 0);
    }
}

static void senses_search(struct query *q, const struct search *s, const struct wn_entry *entry)
{
    for (q->sense = 0; q->sense < entry->sense_count; q->sense++) {
        const struct wn_synset *synset = entry->senses[q->sense];
        if ((q->only_sense != 0 && q->only_sense != q->sense + 1) || seen_before(synset))
            continue;
        q->heading_shown = 0;
        sense_search(q, s, synset, which_word(synset, entry->lemma));
    }
}

/* "7 senses of dog" goes into the blanks that were left for it. */
static void forms_search(struct query *q, const struct search *s, const struct forms *forms)
{
    char title[WN_LEMMA_BYTES_MAX + 64];
    size_t title_at = q->out.used;

    seen.count = 0;
    for (int i = 0; i < forms->count; i++) {
        const struct wn_entry *entry = forms->entries[i];
        q->form_senses = 0;
        if (q->only_sense == 0)
            text_add(&q->out, SEARCH_BLANKS "\n");
        senses_search(q, s, entry);
        if (q->only_sense != 0 || q->form_senses == 0)
            continue;
        if (q->form_senses == entry->sense_count)
            snprintf(title, sizeof(title), "%s\n%u sense%s of %s", i > 0 ? "\n" : "",
                     q->form_senses, q->form_senses == 1 ? "" : "s", entry->lemma);
        else
            snprintf(title, sizeof(title), "%s\n%u of %u senses of %s", i > 0 ? "\n" : "",
                     q->form_senses, entry->sense_count, entry->lemma);
        text_patch(&q->out, title_at, sizeof(SEARCH_BLANKS) - 1, title);
        title_at = q->out.used;
    }
}

static void overview_title(struct query *q, const struct wn_entry *entry, uint32_t pos, size_t at)
{
    char title[WN_LEMMA_BYTES_MAX + 96], tagged[64] = "no senses";

    if (entry->tagged_count > 0)
        snprintf(tagged, sizeof(tagged), "first %u", entry->tagged_count);
    snprintf(title, sizeof(title), "\nThe %s %s has %u sense%s (%s from tagged texts)\n",
             pos_names[pos], entry->lemma, q->form_senses, q->form_senses == 1 ? "" : "s", tagged);
    text_patch(&q->out, at, sizeof(OVERVIEW_BLANKS) - 1, title);
}

static void overview(struct query *q, uint32_t pos, const struct forms *forms)
{
    int show_gloss = q->show_gloss;

    seen.count = 0;
    q->show_gloss = 1;
    for (int i = 0; i < forms->count; i++) {
        const struct wn_entry *entry = forms->entries[i];
        size_t begin = q->out.used;
        text_add(&q->out, OVERVIEW_BLANKS "\n");
        q->form_senses = 0;
        for (uint32_t k = 0; k < entry->sense_count; k++) {
            if (seen_before(entry->senses[k]))
                continue;
            text_add_number(&q->out, k + 1, 1);
            text_add(&q->out, k < entry->tagged_count ? ". (" : ". ");
            if (k < entry->tagged_count) {
                text_add_number(&q->out, tag_count(entry, k), 1);
                text_add(&q->out, ") ");
            }
            synset_print(q, "", entry->senses[k], 0, WITH_GLOSS, "\n");
            q->form_senses++;
            q->found++;
        }
        if (q->form_senses > 0)
            overview_title(q, entry, pos, begin);
        else
            text_cut(&q->out, begin);
    }
    q->show_gloss = show_gloss;
}

/* One search for one word, under a title if anything came out. */
static void search_word(struct query *q, const struct search *s, const char *word, uint32_t pos)
{
    char title[2 * WN_LEMMA_BYTES_MAX];
    struct forms forms;

    snprintf(title, sizeof(title), "\n%s of %s %s\n", s->label, pos_names[pos], word);
    size_t begin = q->out.used;
    text_add(&q->out, title);
    size_t title_end = q->out.used;

    forms_find(q->root, word, pos, &forms);
    if (s->what == OVERVIEW)
        overview(q, pos, &forms);
    else if (s->what == FAMILIARITY)
        familiarity_print(q, pos, &forms);
    else if (s->what == COMPOUNDS)
        compounds_print(q, word, pos);
    else if (s->what == GROUPS)
        for (int i = 0; i < forms.count; i++)
            similar_verbs_print(q, forms.entries[i]);
    else
        forms_search(q, s, &forms);
    if (q->out.used == title_end)
        text_cut(&q->out, begin);
    else
        text_replace(&q->out, title_end, '_', ' ');
}

void search_run(struct query *q, const struct search *search, const char *word)
{
    char key[WN_LEMMA_BYTES_MAX];
    struct bases bases;

    if (word_key(word, key) != 0)
        return;
    for (uint32_t pos = WN_NOUN; pos < WN_POS_END; pos++) {
        if (search->pos != 0 && search->pos != pos)
            continue;
        search_word(q, search, key, pos);
        bases_find(q->root, key, pos, &bases);
        for (int i = 0; i < bases.count; i++)
            search_word(q, search, bases.words[i], pos);
    }
}

const struct search *search_named(const char *option)
{
    for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++)
        if (strcmp(searches[i].option, option) == 0)
            return &searches[i];
    return NULL;
}

void search_list(void)
{
    for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++)
        printf("  %-7s %-4s %s\n", searches[i].option, pos_names[searches[i].pos],
               searches[i].label);
}
