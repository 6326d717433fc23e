/*
 * main.c - wn: WordNet, read from the container where wn-import put it.
 *
 * Nothing is parsed, loaded or fixed up: the container is opened, and pointers are followed.
 */
#include "wn.h"

#include "pstore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SEARCHES_MAX 64

static const char usage[] =
    "wn WORD [SEARCH...] [-g] [-o] [-a] [-s] [-nNUMBER]   senses of WORD and what they point to\n"
    "wn --path WORD WORD      a shortest way over pointers from one word to the other\n"
    "wn --counts              synsets, index entries, senses, pointers: counted in the store\n"
    "wn --check               walk the whole graph and check every pointer\n"
    "  --container NAME       which container (wordnet)\n"
    "  --file FILE            a WORD in each line of FILE\n"
    "  --stats                time and pages read, on stderr\n"
    "  -g glosses, -o file offsets, -a lexicographer files, -s sense numbers, -nNUMBER one sense\n"
    "Without a SEARCH: -over -hypen -hypev. Exit status: 0 found, 1 not found, 2 error.\n"
    "Searches:\n";

enum command { SEARCH, PATH, COUNTS, CHECK };

static struct {
    enum command command;
    const char *container, *file;
    char word[WN_LEMMA_BYTES_MAX];
    const char *words[2];                   /* of --path */
    const struct search *searches[SEARCHES_MAX];
    int search_count, stats;
    struct query query;                     /* the flags; the rest is set by each transaction */
} options = {.container = WN_CONTAINER};

/* A transaction's arguments and results. Each run sets the results afresh. */
struct job {
    ps_container *container;
    const char *word;
    struct query query;
    int status;                             /* the exit status */
    uint32_t phase;                         /* of the import */
};

/* Search for one word. */
static void job_search(struct job *job)
{
    for (int i = 0; i < options.search_count; i++)
        search_run(&job->query, options.searches[i], job->word);
    job->status = job->query.found > 0 ? 0 : 1;
}

static int job_check(struct job *job, const struct wn_root *root)
{
    int faults = check_all(root, &job->query.out);
    if (faults < 0)
        return faults;
    text_add(&job->query.out, faults == 0 ? "sound\n" : "NOT SOUND\n");
    job->status = faults == 0 ? 0 : 2;
    return 0;
}

static int job_body(void *arg)
{
    struct job *job = arg;
    const struct wn_root *root = ps_root(job->container);
    struct text out = job->query.out;

    job->query = options.query;             /* whatever an earlier run left is void */
    job->query.out = out;
    job->query.out.used = 0;
    job->query.root = root;
    job->status = 0;
    job->phase = root->progress.phase;
    if (job->phase != WN_DONE)
        return 0;
    switch (options.command) {
    case SEARCH:
        job_search(job);
        return 0;
    case PATH:
        job->status = path_find(root, options.words[0], options.words[1], &job->query.out);
        return job->status < 0 ? job->status : 0;
    case COUNTS:
        counts_print(root, &job->query.out);
        return 0;
    default:
        return job_check(job, root);
    }
}

/* One transaction, then its output. The exit status. */
static int job_run(struct job *job)
{
    static const struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    int error = ps_transaction_opt(job_body, job, &snapshot);

    if (error != 0) {
        fprintf(stderr, "wn: %s\n", ps_strerror(error));
        return 2;
    }
    if (job->phase != WN_DONE) {
        fprintf(stderr, "wn: the import into %s is not complete; let it go on: wn-import /import\n",
                options.container);
        return 2;
    }
    if (fwrite(job->query.out.bytes, 1, job->query.out.used, stdout) != job->query.out.used) {
        fprintf(stderr, "wn: output: %s\n", strerror(errno));
        return 2;
    }
    if (job->status == 1 && options.command == PATH)
        fprintf(stderr, "wn: no way from %s to %s\n", options.words[0], options.words[1]);
    else if (job->status == 1 && options.file == NULL)
        fprintf(stderr, "wn: nothing found for %s\n", job->word);
    return job->status;
}

/* A word in each line. 0 if one of them was found. */
static int job_run_file(struct job *job)
{
    char line[WN_LEMMA_BYTES_MAX];
    int status = 1;
    FILE *file = fopen(options.file, "r");

    if (file == NULL) {
        fprintf(stderr, "wn: %s: %s\n", options.file, strerror(errno));
        return 2;
    }
    while (status != 2 && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = 0;
        job->word = line;
        int result = line[0] != 0 ? job_run(job) : 1;
        if (result != 1)
            status = result;
    }
    fclose(file);
    return status;
}

/* Pages of the container, 0 if the store does not say. Not inside a transaction. */
static uint64_t container_pages(void)
{
    int room = ps_list(NULL, 0);
    struct ps_info *infos = room > 0 ? calloc((size_t)room, sizeof(*infos)) : NULL;
    int count = infos ? ps_list(infos, room) : 0;
    uint64_t pages = 0;

    for (int i = 0; i < count && i < room; i++)
        if (strcmp(infos[i].name, options.container) == 0)
            pages = infos[i].pages_used;
    free(infos);
    return pages;
}

static void stats_print(const struct timespec *begin)
{
    struct timespec end;
    struct ps_stats stats;

    clock_gettime(CLOCK_MONOTONIC, &end);
    ps_stats(&stats);
    long us = (end.tv_sec - begin->tv_sec) * 1000000L + (end.tv_nsec - begin->tv_nsec) / 1000;
    fprintf(stderr, "stats: %ld us, %llu pages read, %llu read faults, "
            "%llu pages in the container\n", us,
            (unsigned long long)stats.pages_read, (unsigned long long)stats.read_faults,
            (unsigned long long)container_pages());
}

/* One option that is followed by a value; how many arguments it took, 0: it is another one. */
static int parse_with_value(int left, char **argv)
{
    if (left >= 2 && strcmp(argv[0], "--container") == 0)
        options.container = argv[1];
    else if (left >= 2 && strcmp(argv[0], "--file") == 0)
        options.file = argv[1];
    else
        return 0;
    return 2;
}

/* 0, or -1: there is no such option. */
static int parse_option(const char *arg)
{
    const struct search *search = search_named(arg);

    if (search != NULL && options.search_count < SEARCHES_MAX)
        options.searches[options.search_count++] = search;
    else if (strcmp(arg, "--path") == 0)
        options.command = PATH;
    else if (strcmp(arg, "--counts") == 0)
        options.command = COUNTS;
    else if (strcmp(arg, "--check") == 0)
        options.command = CHECK;
    else if (strcmp(arg, "--stats") == 0)
        options.stats = 1;
    else if (strcmp(arg, "-g") == 0)
        options.query.show_gloss = 1;
    else if (strcmp(arg, "-o") == 0)
        options.query.show_offset = 1;
    else if (strcmp(arg, "-a") == 0)
        options.query.show_file = 1;
    else if (strcmp(arg, "-s") == 0)
        options.query.show_senses = 1;
    else if (arg[1] == 'n' && arg[2] >= '1' && arg[2] <= '9')
        options.query.only_sense = (uint32_t)atoi(arg + 2);
    else
        return -1;
    return 0;
}

/* The parts of a collocation may come as several arguments: wn hot dog. */
static int parse_word(const char *arg, int *words)
{
    size_t used = strlen(options.word);

    if (*words < 2)
        options.words[*words] = arg;
    if (used + strlen(arg) + 2 > sizeof(options.word))
        return -1;
    if ((*words)++ > 0)
        options.word[used++] = '_';
    strcpy(options.word + used, arg);
    return 0;
}

/* 0, or -1 for a usage error. */
static int parse(int argc, char **argv)
{
    int words = 0;

    for (int i = 1; i < argc; i++) {
        int taken = parse_with_value(argc - i, argv + i);
        if (taken != 0) {
            i += taken - 1;
        } else if ((argv[i][0] == '-' ? parse_option(argv[i]) : parse_word(argv[i], &words)) != 0) {
            fprintf(stderr, "wn: %s: no such option, or too long\n", argv[i]);
            return -1;
        }
    }
    if (options.search_count == 0) {
        options.searches[0] = search_named("-over");
        options.searches[1] = search_named("-hypen");
        options.searches[2] = search_named("-hypev");
        options.search_count = 3;
    }
    if (options.command == SEARCH)
        return words > 0 || options.file != NULL ? 0 : -1;
    return options.command == PATH ? words - 2 : -words;
}

static int run(void)
{
    static struct job job;
    job.word = options.word;
    job.container = ps_open(options.container, 0, PS_LAYOUT(struct wn_root, WN_VERSION));
    if (job.container == NULL && errno == ENOENT) {
        fprintf(stderr, "wn: there is no container %s; bring WordNet in first: wn-import /import\n",
                options.container);
        return 2;
    }
    if (job.container == NULL) {
        fprintf(stderr, "wn: container %s: %s\n", options.container, ps_strerror(errno));
        return 2;
    }
    int status = options.file != NULL ? job_run_file(&job) : job_run(&job);
    if (fflush(stdout) != 0)
        status = 2;
    free(job.query.out.bytes);
    ps_close(job.container);
    return status;
}

int main(int argc, char **argv)
{
    struct timespec begin;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        search_list();
        return 0;
    }
    if (parse(argc, argv) != 0) {
        fputs("wn: what to look for? wn --help\n", stderr);
        return 2;
    }
    int status = run();
    if (options.stats)
        stats_print(&begin);
    return status;
}
