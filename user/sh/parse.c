/* parse.c - splits a text into words and operators; quotes, backslashes, `$NAME`, comments. */
#include "sh.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_word(char c)
{
    return c == 0 || strchr(" \t\r\n;&|<>", c);
}

static void put(struct scanner *s, char c)
{
    if (s->words < s->words_end - 1)
        *s->words++ = c;
}

char **script_words; /* the script and its arguments */
int script_word_count;

/* `$?`, `$#`, `$0` to `$9` of a script, or `$NAME` of the environment; one that is not there is
 * empty. */
static bool put_variable(struct scanner *s, int status)
{
    char text[128], next = s->at[0] ? s->at[1] : 0;
    const char *value = text;
    size_t n = 2;
    if (s->at[0] != '$')
        return false;
    if (next == '?' || next == '#') {
        snprintf(text, sizeof(text), "%d",
                 next == '?'         ? status
                 : script_word_count ? script_word_count - 1
                                     : 0);
    } else if (isdigit((unsigned char)next)) {
        value = next - '0' < script_word_count ? script_words[next - '0'] : NULL;
    } else {
        n = 1;
        while (isalnum((unsigned char)s->at[n]) || s->at[n] == '_')
            n++;
        if (n == 1 || n > sizeof(text))
            return false;
        snprintf(text, sizeof(text), "%.*s", (int)n - 1, s->at + 1);
        value = getenv(text);
    }
    for (const char *c = value ? value : ""; *c; c++)
        put(s, *c);
    s->at += n;
    return true;
}

static bool put_quoted(struct scanner *s, int status)
{
    char quote = *s->at++;
    while (*s->at && *s->at != quote) {
        if (quote == '"' && put_variable(s, status))
            continue;
        if (quote == '"' && *s->at == '\\' && s->at[1] && strchr("\"\\$", s->at[1]))
            s->at++;
        put(s, *s->at++);
    }
    if (!*s->at)
        return false;
    s->at++;
    return true;
}

static enum token scan_word(struct scanner *s, int status, char **word)
{
    *word = s->words;
    while (!ends_word(*s->at)) {
        if (*s->at == '\'' || *s->at == '"') {
            if (!put_quoted(s, status))
                return TOKEN_BAD;
        } else if (!put_variable(s, status)) {
            if (*s->at == '\\' && s->at[1])
                s->at++;
            put(s, *s->at++);
        }
    }
    if (s->words >= s->words_end - 1)
        return TOKEN_BAD;
    *s->words++ = 0;
    return TOKEN_WORD;
}

enum token scan(struct scanner *s, int status, char **word)
{
    static const struct { const char *text; enum token token; } operators[] = {
        {"2>&1", TOKEN_ERROR_TO_OUT}, {"2>", TOKEN_ERROR_OUT}, {"&&", TOKEN_AND}, {"||", TOKEN_OR},
        {">>", TOKEN_APPEND}, {">", TOKEN_OUT}, {"<", TOKEN_IN}, {"|", TOKEN_PIPE},
        {"&", TOKEN_BACKGROUND}, {";", TOKEN_SEMICOLON}, {"\n", TOKEN_SEMICOLON},
    };
    for (;;) {
        if (*s->at == '#')
            s->at += strcspn(s->at, "\n");
        if (!*s->at || !strchr(" \t\r", *s->at))
            break;
        s->at++;
    }
    if (!*s->at)
        return TOKEN_END;
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        size_t n = strlen(operators[i].text);
        if (strncmp(s->at, operators[i].text, n) == 0) {
            s->at += n;
            return operators[i].token;
        }
    }
    return scan_word(s, status, word);
}
