/*
 * main.c - trace: runs a program and records what the whole system does meanwhile.
 *
 *   trace -o FILE PROGRAM [ARGUMENT...]              all events into FILE, for scripts/trace2json
 *   trace --print[=TICKET] PROGRAM [ARGUMENT...]     one transaction, as a story
 *   trace --hot PROGRAM [ARGUMENT...]                the pages that were waited for most
 *   trace --rights PROGRAM [ARGUMENT...]             who made, gave, used, lost which right
 *
 * PROGRAM may be `run --only NAME PROGRAM` or `with DIR PROGRAM`, as at the shell.
 * FILE lies under /export to come to the host: scripts/run --export DIR. kernel/look/tracing.md.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

static const char usage[] =
    "usage: trace [-o FILE] [--print[=TICKET]] [--hot] [--rights] PROGRAM [ARGUMENT...]\n"
    "Records faults, waits, callbacks, messages, commits, disk requests and thread switches of the "
    "whole\n"
    "system while PROGRAM runs, which may be `run --only NAME PROGRAM` or `with DIR PROGRAM`.\n"
    "FILE is for scripts/trace2json on the host (put it under /export); --print\n"
    "tells one transaction as a story: the one that waited longest, or that with the ticket.\n"
    "--hot lists the pages of containers that transactions waited for most, with the objects and "
    "the places in\n"
    "programs of both sides; piped through scripts/places.py on the host, with fields and source "
    "lines.\n"
    "--rights lists who made, passed on, got and used which badge and which grant of the store, "
    "and who was\nrefused what.\n";

/* 0, or 1 with a message. */
static int file_write(const struct trace *t, const char *path)
{
    FILE *f = fopen(path, "w");
    int bad = !f;
    if (f) {
        fprintf(f, "katydid trace 1\ncommand\t%s\ncpus\t%u\nlost\t%llu\n", t->command, t->cpus,
                (unsigned long long)t->lost);
        names_write(f);
        sites_write(f);
        fprintf(f, "events\t%zu\n", t->count);
        bad = fwrite(t->events, sizeof *t->events, t->count, f) != t->count;
        bad |= fclose(f) != 0;
    }
    if (bad)
        fprintf(stderr, "trace: cannot write %s\n", path);
    return bad;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"print", optional_argument, NULL, 'p'}, {"hot", no_argument, NULL, 'H'},
        {"rights", no_argument, NULL, 'R'},
        {"help", no_argument, NULL, 'h'}, {0}};
    const char *path = NULL;
    char *end = "";
    uint64_t ticket = 0;
    int print = 0, hot = 0, rights = 0, c;
    while ((c = getopt_long(argc, argv, "+o:h", options, NULL)) != -1) {
        switch (c) {
        case 'o': path = optarg; break;
        case 'p':
            print = 1;
            ticket = optarg ? strtoull(optarg, &end, 10) : 0;
            break;
        case 'H': hot = 1; break;
        case 'R': rights = 1; break;
        default: fputs(usage, c == 'h' ? stdout : stderr); return c == 'h' ? 0 : 2;
        }
    }
    if (*end || optind == argc || (!path && !print && !hot && !rights)) {
        fputs(usage, stderr);
        return 2;
    }
    struct trace t = {0};
    int status = collect(&t, argv + optind);
    if (status < 0)
        return 127;
    names_learn(&t);
    if (t.lost)
        fprintf(stderr, "trace: %llu events were lost\n", (unsigned long long)t.lost);
    int bad = path ? file_write(&t, path) : 0;
    if (print)
        bad |= story_print(&t, ticket);
    if (hot)
        bad |= hot_print(&t);
    if (rights)
        bad |= rights_print(&t);
    return status ? status : bad;
}
