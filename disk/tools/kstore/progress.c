/*
 * progress.c - a bar on the terminal while something takes long; and findings as lines.
 */
#include "kstore.h"

#include <time.h>
#include <unistd.h>

#define FIRST_AFTER_MS 300
#define EVERY_MS       100
#define BAR_COLUMNS    40

bool progress_off;
static bool shown;

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void progress_show(void *context, const char *what, uint64_t done, uint64_t of)
{
    static uint64_t next;
    static int terminal = -1;
    char bar[BAR_COLUMNS + 1];
    (void)context;
    if (terminal < 0) {
        terminal = isatty(STDERR_FILENO);
        next = now_ms() + FIRST_AFTER_MS;
    }
    if (!terminal || progress_off || now_ms() < next || !of)
        return;
    next = now_ms() + EVERY_MS;
    double part = (double)done / (double)of;
    for (int i = 0; i < BAR_COLUMNS; i++)
        bar[i] = i < part * BAR_COLUMNS ? '#' : '.';
    bar[BAR_COLUMNS] = 0;
    fprintf(stderr, "\r%-24s [%s] %3.0f%%", what, bar, 100 * part);
    fflush(stderr);
    shown = true;
}

void progress_end(void)
{
    if (shown)
        fprintf(stderr, "\r\033[K");
    shown = false;
}

void finding_print(void *context, enum kcheck_level level, const char *label, const char *text)
{
    static const char *const words[] = { "note", "warning", "damage" };
    progress_end();
    fprintf(context, "%s: %s%s%s%s\n", words[level], text, *label ? " (" : "", label,
            *label ? ")" : "");
}
