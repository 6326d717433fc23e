/*
 * main.c - wn-import: brings WordNet into a container, in transactions of bounded size.
 *
 * Invariant: all that is known about how far the import is lies in root->progress, which changes
 * in the same transaction as the objects it speaks of. Killed at any instant, the next run goes on.
 */
#include "import.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *const data_names[4] = {"data.noun", "data.verb", "data.adj", "data.adv"};
const char *const index_names[4] = {"index.noun", "index.verb", "index.adj", "index.adv"};
const char *const note_names[NOTE_FILES] = {"noun.exc", "verb.exc", "adj.exc", "adv.exc",
                                            "sentidx.vrb", "sents.vrb"};

static const struct phase {
    int (*step)(struct import *im, struct wn_root *root);
    const char *title;
    unsigned weight;                        /* its share of the time, in percent */
} phases[WN_DONE] = {
    {nodes_step, "synsets", 50}, {links_step, "pointers", 20}, {entries_step, "index", 24},
    {notes_step, "exceptions", 2}, {directory_step, "directory", 4},
};

/* Arguments and results of a transaction; what it stores here it stores afresh at each run. */
struct step {
    struct import *im;
    struct wn_root seen;                    /* the root after the step */
    uint64_t input_bytes;
};

static const char usage[] =
    "wn-import DIR [--container NAME]\n"
    "  Brings WordNet (data.*, index.*, *.exc in DIR) into the container NAME (wordnet).\n"
    "  Can be stopped at any time, also by pulling the plug; the next run goes on.\n"
    "  In Katydid the folder given with --import is /import:  wn-import /import\n";

uint32_t type_of_symbol(const char *symbol, size_t bytes)
{
    static const char symbols[WN_TYPE_END][3] = {
        "", "!", "@", "~", "@i", "~i", "#m", "#s", "#p", "%m", "%s", "%p", "*", ">", "&", "<",
        "^", "\\", "=", "$", "+", ";c", ";u", ";r", "-c", "-u", "-r"
    };
    for (uint32_t type = 1; type < WN_TYPE_END; type++)
        if (symbols[type][0] == symbol[0] &&
            (bytes == 1 ? symbols[type][1] == 0 : bytes == 2 && symbols[type][1] == symbol[1]))
            return type;
    /* index.* names a few types by their first character alone: "@ ~ #p %p ; -" */
    if (bytes == 1 && symbol[0] == ';')
        return WN_TOPIC;
    if (bytes == 1 && symbol[0] == '-')
        return WN_TOPIC_TERM;
    return 0;
}

uint32_t pos_of_letter(char letter)
{
    switch (letter) {
    case 'n': return WN_NOUN;
    case 'v': return WN_VERB;
    case 'a':
    case 's': return WN_ADJ;
    case 'r': return WN_ADV;
    default:  return 0;
    }
}

int import_malformed(struct import *im, const char *file, uint64_t offset, const char *what)
{
    snprintf(im->complaint, sizeof(im->complaint), "%s, byte %llu: %s", file,
             (unsigned long long)offset, what);
    return -EINVAL;
}

struct wn_batch *batch_new(struct import *im, struct wn_root *root, uint32_t kind)
{
    struct wn_batch *batch = ps_new(im->container, struct wn_batch, NULL);
    if (batch == NULL)
        return NULL;
    batch->kind = (uint8_t)kind;
    if (root->last != NULL)
        root->last->next = batch;
    else
        root->first = batch;
    root->last = batch;
    return batch;
}

void batch_add(struct wn_batch *batch, void *object, uint32_t key)
{
    batch->objects[batch->count] = object;
    batch->keys[batch->count] = key;
    batch->count++;
}

/* One transaction of whatever phase the container is in. */
static int step_body(void *arg)
{
    struct step *step = arg;
    struct wn_root *root = ps_root(step->im->container);
    int error = 0;

    step->im->complaint[0] = 0;
    if (root->progress.phase > WN_DONE)
        return -EPROTO;
    if (root->progress.phase != WN_DONE) {
        if (root->input_bytes == 0)
            root->input_bytes = step->input_bytes;
        if (root->input_bytes != step->input_bytes)
            return import_malformed(step->im, "data.*, index.*", 0, "another edition of WordNet "
                "than that with which this container was begun; delete it, or use --container");
        error = phases[root->progress.phase].step(step->im, root);
    }
    step->seen = *root;
    return error;
}

/* Only look. */
static int look_body(void *arg)
{
    struct step *step = arg;
    const struct wn_root *root = ps_root(step->im->container);
    step->seen = *root;
    return 0;
}

static uint64_t bytes_of(const struct input *files, unsigned count)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += files[i].file_bytes;
    return bytes;
}

/* Parts in a thousand of what a phase has to do. */
static unsigned phase_done(const struct import *im, const struct wn_root *root)
{
    const struct wn_progress *p = &root->progress;
    uint64_t done = p->byte_offset, all = 1;

    switch (p->phase) {
    case WN_PHASE_NODES:
        done += bytes_of(im->data, p->file);
        all = bytes_of(im->data, 4);
        break;
    case WN_PHASE_LINKS:
        all = root->synset_count;
        break;
    case WN_PHASE_ENTRIES:
        done += bytes_of(im->index, p->file);
        all = bytes_of(im->index, 4);
        break;
    case WN_PHASE_NOTES:
        done = p->file;
        all = NOTE_FILES;
        break;
    case WN_PHASE_DIRECTORY:
        done = p->file;
        all = root->segment_count != 0 ? root->segment_count : 1;
        break;
    default:
        break;
    }
    return (unsigned)(done * 1000 / (all != 0 ? all : 1));
}

static unsigned percent_done(const struct import *im, const struct wn_root *root)
{
    unsigned done = 0, phase = root->progress.phase;

    if (phase >= WN_DONE)
        return 100;
    for (unsigned i = 0; i < phase; i++)
        done += phases[i].weight;
    return done + phases[phase].weight * phase_done(im, root) / 1000;
}

/* A bar on a terminal, else a line for every ten percent. */
static void show_progress(const struct import *im, const struct wn_root *root)
{
    static unsigned shown = 1000;
    unsigned percent = percent_done(im, root);
    unsigned unit = isatty(STDOUT_FILENO) ? 1 : 10;
    const char *title = root->progress.phase < WN_DONE ? phases[root->progress.phase].title
                                                         : "done";
    static const char full[] = "########################################";

    if (percent / unit == shown)
        return;
    shown = percent / unit;
    if (unit == 1)
        printf("\r[%-40.*s] %3u%% %-12s%s", (int)(percent * 40 / 100), full, percent, title,
               percent == 100 ? "\n" : "");
    else
        printf("wn-import: %3u%% %s\n", shown * unit, title);
    fflush(stdout);
}

static void close_files(struct import *im)
{
    for (int i = 0; i < 4; i++) {
        input_close(&im->data[i]);
        input_close(&im->index[i]);
    }
    for (int i = 0; i < NOTE_FILES; i++)
        input_close(&im->notes[i]);
    input_close(&im->counts);
}

/* Everything in the folder; only data.* and index.* have to be there. */
static int open_files(struct import *im)
{
    for (int i = 0; i < 4; i++) {
        const char *name = data_names[i];
        int error = input_open(&im->data[i], im->folder, name);
        if (error == 0) {
            name = index_names[i];
            error = input_open(&im->index[i], im->folder, name);
        }
        if (error != 0) {
            fprintf(stderr, "wn-import: %s/%s: %s\n%s", im->folder, name, strerror(-error),
                    error == -ENOENT ? "Is WordNet's folder attached? (scripts/run --import DIR; "
                    "it is /import then)\n" : "");
            return error;
        }
    }
    for (int i = 0; i < NOTE_FILES; i++) {
        int error = input_open(&im->notes[i], im->folder, note_names[i]);
        if (error != 0 && error != -ENOENT)
            return error;
    }
    int error = input_open(&im->counts, im->folder, "cntlist.rev");
    return error == -ENOENT ? 0 : error;
}

static int report_failure(const struct import *im, int error)
{
    if (im->complaint[0] != 0)
        fprintf(stderr, "\nwn-import: %s\n", im->complaint);
    else
        fprintf(stderr, "\nwn-import: %s\n", ps_strerror(error));
    return 2;
}

/* All transactions that are still to do. */
static int import_run(struct import *im, struct step *step)
{
    if (step->seen.progress.phase != WN_PHASE_NODES || step->seen.progress.byte_offset != 0)
        printf("wn-import: goes on at %u%%\n", percent_done(im, &step->seen));
    while (step->seen.progress.phase < WN_DONE) {
        show_progress(im, &step->seen);
        int error = ps_transaction(step_body, step);
        if (error != 0)
            return report_failure(im, error);
    }
    show_progress(im, &step->seen);
    return 0;
}

static int import_all(struct import *im, const char *container)
{
    static struct step step;                /* too large for a small stack */
    struct timespec begin, end;

    step.im = im;
    im->container = ps_open(container, PS_CREATE | PS_WRITE, PS_LAYOUT(struct wn_root, WN_VERSION));
    if (im->container == NULL) {
        fprintf(stderr, "wn-import: container %s: %s\n", container, ps_strerror(errno));
        return 2;
    }
    int error = ps_transaction(look_body, &step);
    if (error != 0)
        return report_failure(im, error);
    if (step.seen.progress.phase == WN_DONE) {
        printf("wn-import: container %s is complete already, nothing to do\n", container);
        return 0;
    }
    if (open_files(im) != 0)
        return 2;
    step.input_bytes = bytes_of(im->data, 4) + bytes_of(im->index, 4);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    int status = import_run(im, &step);
    clock_gettime(CLOCK_MONOTONIC, &end);
    long ms = (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000;
    if (status == 0)
        printf("wn-import: %u synsets, %u index entries, %u senses, %u pointers, in %ld.%ld s\n",
               step.seen.synset_count, step.seen.entry_count, step.seen.sense_count,
               step.seen.link_count, ms / 1000, ms / 100 % 10);
    return status;
}

int main(int argc, char **argv)
{
    static struct import im;
    const char *container = WN_CONTAINER;

    im.counts.fd = -1;
    for (int i = 0; i < 4; i++)
        im.data[i].fd = im.index[i].fd = -1;
    for (int i = 0; i < NOTE_FILES; i++)
        im.notes[i].fd = -1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return 0;
        }
        if (strcmp(argv[i], "--container") == 0 && i + 1 < argc)
            container = argv[++i];
        else if (argv[i][0] != '-' && im.folder == NULL)
            im.folder = argv[i];
        else
            im.folder = NULL, i = argc;
    }
    if (im.folder == NULL) {
        fputs(usage, stderr);
        return 2;
    }
    int status = import_all(&im, container);
    close_files(&im);
    if (im.container != NULL)
        ps_close(im.container);
    return status;
}
