/* parse.c - splits a text into words and operators; quotes, backslashes, `$?`, comments. */
#include "sh.h"

#include <stdio.h>
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

/* `$?` is the only variable. */
static bool put_status(struct scanner *s, int status)
{
    char text[16];
    if (s->at[0] != '$' || s->at[1] != '?')
        return false;
    snprintf(text, sizeof(text), "%d", status);
    for (const char *c = text; *c; c++)
        put(s, *c);
    s->at += 2;
    return true;
}

static bool put_quoted(struct scanner *s, int status)
{
    char quote = *s->at++;
    while (*s->at && *s->at != quote) {
        if (quote == '"' && put_status(s, status))
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
        } else if (!put_status(s, status)) {
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
