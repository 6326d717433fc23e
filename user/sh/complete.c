/*
 * complete.c - what may stand where the cursor is: a command, a file, a container.
 *
 * The first word of a command is a built-in or a program; a word with a slash, or any later one, is
 * a path; behind `rm-container` it is a container's name.
 */
#include "sh.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pstore.h"

struct wanted {
    const char *prefix;
    struct matches *out;
};

static void offer(const struct wanted *w, const char *name, const char *suffix)
{
    struct matches *m = w->out;
    if (strncmp(name, w->prefix, strlen(w->prefix)) != 0 || m->count == MATCHES_MAX)
        return;
    for (int i = 0; i < m->count; i++)
        if (strncmp(m->text[i], name, strlen(name)) == 0 &&
            strcmp(m->text[i] + strlen(name), suffix) == 0)
            return;
    snprintf(m->text[m->count++], sizeof(m->text[0]), "%s%s", name, suffix);
}

static void offer_folder(const struct wanted *w, const char *folder)
{
    char path[1024];
    struct dirent *e;
    struct stat s;
    DIR *d = opendir(folder);
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' && w->prefix[0] != '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        offer(w, e->d_name, stat(path, &s) == 0 && S_ISDIR(s.st_mode) ? "/" : " ");
    }
    if (d)
        closedir(d);
}

static void offer_path(struct wanted *w)
{
    char folder[1024] = ".";
    const char *slash = strrchr(w->prefix, '/');
    if (slash) {
        size_t n = (size_t)(slash - w->prefix);
        if (n >= sizeof(folder))
            return;
        memcpy(folder, w->prefix, n);
        strcpy(folder + n, n ? "" : "/");
        w->prefix = slash + 1;
    }
    offer_folder(w, folder);
}

static void offer_containers(const struct wanted *w)
{
    struct ps_info *c;
    int n = containers_all(NULL, &c);
    for (int i = 0; i < n; i++)
        offer(w, c[i].name, " ");
    free(c);
}

/* Where the command that holds the last word begins. */
static const char *command_start(const char *text)
{
    const char *start = text;
    for (const char *c = text; *c; c++)
        if (strchr(";&|", *c))
            start = c + 1;
    return start + strspn(start, " ");
}

static int longest_common(const struct matches *m)
{
    int n = m->count ? (int)strlen(m->text[0]) : 0;
    for (int i = 1; i < m->count; i++)
        for (int k = 0; k < n; k++)
            if (m->text[i][k] != m->text[0][k])
                n = k;
    return n;
}

void complete(const char *text, struct matches *out)
{
    const char *command = command_start(text), *space = strrchr(command, ' ');
    struct wanted w = {space ? space + 1 : command, out};
    memset(out, 0, sizeof(*out));
    if (!space && !strchr(w.prefix, '/')) {
        const char *name;
        for (int i = 0; (name = builtin_name(i)); i++)
            offer(&w, name, " ");
        offer_folder(&w, "/bin");
    } else if (strncmp(command, "rm-container ", 13) == 0) {
        offer_containers(&w);
    } else {
        offer_path(&w);
    }
    out->typed = (int)strlen(w.prefix);
    out->common = longest_common(out);
}
