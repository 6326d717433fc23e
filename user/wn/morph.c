/*
 * morph.c - WordNet's "morphy": dogs -> dog, ran -> run, attorneys general -> attorney general.
 *
 * First the list of exceptions, then rules that replace an ending; a base form that a rule makes
 * counts only if the dictionary has it. A collocation is taken apart at '_' and '-' and its parts
 * are tried one by one; of a verb with a preposition only the verb is changed.
 */
#include "wn.h"

#include <stdlib.h>
#include <string.h>

static const struct rule {
    const char *suffix, *ending;
} noun_rules[] = {
    {"s", ""}, {"ses", "s"}, {"xes", "x"}, {"zes", "z"}, {"ches", "ch"}, {"shes", "sh"},
    {"men", "man"}, {"ies", "y"}, {NULL, NULL}
}, verb_rules[] = {
    {"s", ""}, {"ies", "y"}, {"es", "e"}, {"es", ""}, {"ed", "e"}, {"ed", ""}, {"ing", "e"},
    {"ing", ""}, {NULL, NULL}
}, adjective_rules[] = {
    {"er", ""}, {"est", ""}, {"er", "e"}, {"est", "e"}, {NULL, NULL}
}, no_rules[] = {
    {NULL, NULL}
};
static const struct rule *const rules[WN_POS_END] = {
    no_rules, noun_rules, verb_rules, adjective_rules, no_rules
};

/* Ends the word so, and is it longer than that? */
static int ends_with(const char *word, const char *suffix)
{
    size_t bytes = strlen(word), suffix_bytes = strlen(suffix);
    return bytes > suffix_bytes && strcmp(word + bytes - suffix_bytes, suffix) == 0;
}

/* Put a + b into out; 0, or -1 if it is too long. */
static int join(char out[WN_LEMMA_BYTES_MAX], const char *a, size_t a_bytes, const char *b)
{
    size_t b_bytes = strlen(b);
    if (a_bytes + b_bytes >= WN_LEMMA_BYTES_MAX)
        return -1;
    memmove(out, a, a_bytes);
    memcpy(out + a_bytes, b, b_bytes + 1);
    return 0;
}

/* Apply a rule; 0, or -1 if it does not fit the word. */
static int rule_apply(const struct rule *rule, const char *word, char out[WN_LEMMA_BYTES_MAX])
{
    if (!ends_with(word, rule->suffix))
        return -1;
    return join(out, word, strlen(word) - strlen(rule->suffix), rule->ending);
}

/* The next base form of an exception's value; 0, or -1 after the last. */
static int exception_next(const char **value, char out[WN_LEMMA_BYTES_MAX])
{
    size_t bytes = strcspn(*value, " ");
    if (bytes == 0 || bytes >= WN_LEMMA_BYTES_MAX)
        return -1;
    memcpy(out, *value, bytes);
    out[bytes] = 0;
    *value += bytes + strspn(*value + bytes, " ");
    return 0;
}

static const char *exception_find(const struct wn_root *root, const char *word, uint32_t pos)
{
    const struct wn_note *note = directory_find(root, word, WN_EXCEPTIONS + pos);
    return note != NULL ? note->value : "";
}

/* The base form of one word without blanks; 0, or -1: none. */
static int word_base(const struct wn_root *root, const char *word, uint32_t pos,
                     char out[WN_LEMMA_BYTES_MAX])
{
    const char *value = exception_find(root, word, pos), *tail = "";
    char stem[WN_LEMMA_BYTES_MAX];

    if (exception_next(&value, out) == 0)
        return 0;
    strcpy(stem, word);
    if (pos == WN_NOUN && ends_with(word, "ful")) {
        stem[strlen(word) - 3] = 0;         /* boxesful: box and ful */
        tail = "ful";
    } else if (pos == WN_NOUN && (ends_with(word, "ss") || strlen(word) <= 2)) {
        return -1;
    }
    for (const struct rule *rule = rules[pos]; rule->suffix != NULL; rule++)
        if (rule_apply(rule, stem, out) == 0 && word_defined(root, out, pos))
            return join(out, out, strlen(out), tail);
    return -1;
}

/* Has the collocation a preposition as its second or a later word? */
static int has_preposition(const char *word)
{
    static const char *const prepositions[] = {
        "to", "at", "of", "on", "off", "in", "out", "up", "down", "from", "with", "into", "for",
        "about", "between"
    };
    while ((word = strchr(word, '_')) != NULL) {
        size_t bytes = strcspn(++word, "_");
        for (size_t i = 0; i < sizeof(prepositions) / sizeof(prepositions[0]); i++)
            if (strlen(prepositions[i]) == bytes && memcmp(prepositions[i], word, bytes) == 0)
                return 1;
    }
    return 0;
}

static int is_plain(const char *word)
{
    for (; *word != 0; word++)
        if (!((*word >= 'a' && *word <= 'z') || (*word >= '0' && *word <= '9')))
            return 0;
    return 1;
}

/* verb + rest or verb + other_rest, whichever the dictionary has; 0, or -1: neither. */
static int phrase_defined(const struct wn_root *root, const char *verb, const char *rest,
                          const char *other_rest, char out[WN_LEMMA_BYTES_MAX])
{
    if (join(out, verb, strlen(verb), rest) == 0 && word_defined(root, out, WN_VERB))
        return 0;
    if (other_rest[0] != 0 && join(out, verb, strlen(verb), other_rest) == 0 &&
        word_defined(root, out, WN_VERB))
        return 0;
    return -1;
}

/* "asked_for_it": another form of the first word, the rest as it is or with its last word's base.
 * 0, or -1: none. */
static int phrase_base(const struct wn_root *root, const char *phrase, char out[WN_LEMMA_BYTES_MAX])
{
    const char *rest = strchr(phrase, '_'), *last = strrchr(phrase, '_');
    char verb[WN_LEMMA_BYTES_MAX], base[WN_LEMMA_BYTES_MAX], other_rest[WN_LEMMA_BYTES_MAX] = "";

    if (rest != last && word_base(root, last + 1, WN_NOUN, base) == 0 &&
        join(other_rest, rest, (size_t)(last - rest) + 1, base) != 0)
        return -1;
    join(verb, phrase, (size_t)(rest - phrase), "");
    if (!is_plain(verb))
        return -1;
    const char *value = exception_find(root, verb, WN_VERB);
    if (exception_next(&value, base) == 0 && strcmp(base, verb) != 0 &&
        phrase_defined(root, base, rest, other_rest, out) == 0)
        return 0;
    for (const struct rule *rule = verb_rules; rule->suffix != NULL; rule++)
        if (rule_apply(rule, verb, base) == 0 && strcmp(base, verb) != 0 &&
            phrase_defined(root, base, rest, other_rest, out) == 0)
            return 0;
    if (other_rest[0] == 0 || join(out, verb, strlen(verb), other_rest) != 0)
        return -1;
    return strcmp(out, phrase) != 0 ? 0 : -1;
}

/* Each part between '_' and '-' by its base form; 0, or -1: the whole is not in the dictionary. */
static int parts_base(const struct wn_root *root, const char *word, uint32_t pos,
                      char out[WN_LEMMA_BYTES_MAX])
{
    char part[WN_LEMMA_BYTES_MAX], base[WN_LEMMA_BYTES_MAX], separator[2] = "";
    size_t used = 0;

    for (const char *at = word;;) {
        size_t bytes = strcspn(at, "_-");
        join(part, at, bytes, "");
        if (word_base(root, part, pos, base) != 0)
            strcpy(base, part);
        separator[0] = at[bytes];
        if (join(out, out, used, base) != 0)
            return -1;
        used += strlen(base);
        if (join(out, out, used, separator) != 0)
            return -1;
        if (at[bytes] == 0)
            break;
        used++;
        at += bytes + 1;
    }
    return strcmp(out, word) != 0 && word_defined(root, out, pos) ? 0 : -1;
}

void bases_find(const struct wn_root *root, const char *word, uint32_t pos, struct bases *bases)
{
    char key[WN_LEMMA_BYTES_MAX], *base = bases->words[0];

    bases->count = 0;
    if (word_key(word, key) != 0)
        return;
    const char *value = exception_find(root, key, pos);
    if (exception_next(&value, base) == 0 && strcmp(base, key) != 0) {
        do {
            bases->count++;
        } while (bases->count < BASES_MAX &&
                 exception_next(&value, bases->words[bases->count]) == 0);
        return;
    }
    if (pos != WN_VERB && word_base(root, key, pos, base) == 0 && strcmp(base, key) != 0) {
        bases->count = 1;
        return;
    }
    if (pos == WN_VERB && strchr(key, '_') != NULL && has_preposition(key))
        bases->count = phrase_base(root, key, base) == 0;
    else
        bases->count = parts_base(root, key, pos, base) == 0;
}
