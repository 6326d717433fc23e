/*
 * sites.c - the other sites: sessions, stores, round trips, frames.
 *
 *     sites            this site, and a line for each connection: frames and KiB of it
 *     sites -v         and why the last session with it ended, the programs, and what this site has
 *                      cached of it and waits for
 */
#include <stdio.h>
#include <string.h>

#include "site_look.h"

static const char *const states[] = {"AWAY", "GREETING", "LIVE", "LOST", "REFUSED"};

static void stores(const struct link_site *s)
{
    for (uint32_t i = 0; i < s->store_count && i < LINK_STORES_MAX; i++)
        printf("%s%s zone %u", i ? ", " : "", s->stores[i].name, s->stores[i].zone);
    if (!s->store_count)
        printf("no store");
    if (s->as[0] && strcmp(s->as, s->site) != 0)
        printf(", home in the place of %s", s->as);
}

static void round_trip(const struct link_site *s)
{
    if (s->state == LINK_LIVE && s->round_trip_ns)
        printf(" %7llu us", (unsigned long long)s->round_trip_ns / 1000);
    else
        printf(" %10s", "-");
}

/* What `remote` says of the home: nothing, if it serves none yet. */
static void cached(const struct link_site *s)
{
    uint64_t word[KD_WORDS];
    if (site_cached(s, word))
        printf("    cached of it: %llu pages, %llu to write; waited for: %llu. Asked for: %llu, "
               "called back: %llu, given back: %llu, denied: %llu; commits: %llu\n",
               (unsigned long long)word[0], (unsigned long long)word[1],
               (unsigned long long)word[2], (unsigned long long)word[3],
               (unsigned long long)word[4], (unsigned long long)word[5],
               (unsigned long long)word[6], (unsigned long long)word[7]);
}

static void line(const struct link_site *s, bool more)
{
    const char *state = s->state < sizeof(states) / sizeof(states[0]) ? states[s->state] : "?";
    printf("%-10s %-7s %-8s", s->site[0] ? s->site : "-", s->stream, state);
    round_trip(s);
    printf(" %7llu %7llu %7llu %7llu  ", (unsigned long long)s->frames_in,
           (unsigned long long)s->frames_out, (unsigned long long)s->bytes_in >> 10,
           (unsigned long long)s->bytes_out >> 10);
    stores(s);
    putchar('\n');
    if (!more)
        return;
    printf("    sessions: %u; waiting: %llu bytes in, %llu out", s->sessions,
           (unsigned long long)s->waits_in, (unsigned long long)s->waits_out);
    if (s->agent)
        printf("; agent: process %d%s", s->agent, s->dying ? ", of a session that has ended" : "");
    if (s->remote)
        printf("; used by process %d", s->remote);
    putchar('\n');
    cached(s);
    printf("%s%s%s", s->why[0] ? "    " : "", s->why, s->why[0] ? "\n" : "");
}

int main(int argc, char **argv)
{
    static struct link_site all[SITE_LOOKS_MAX];
    bool more = argc == 2 && strcmp(argv[1], "-v") == 0;
    if (argc > 1 && !more) {
        fprintf(stderr, "usage: sites [-v]   the sites that this one is connected with\n");
        return strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    size_t count = sites_look(all);
    if (!count) {
        fprintf(stderr, "sites: this machine is no site: scripts/run --site NAME makes it one\n");
        return 1;
    }
    printf("this site: %s, ", all[0].site);
    stores(&all[0]);
    printf("\n%-10s %-7s %-8s %10s %7s %7s %7s %7s  %s\n", "site", "stream", "state",
           "round trip", "in", "out", "KiB in", "out", "stores");
    for (size_t i = 1; i < count; i++)
        line(&all[i], more);
    return 0;
}
