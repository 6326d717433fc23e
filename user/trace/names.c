/*
 * names.c - the names of processes, containers and disks, for people.
 *
 * Processes that still live are in the kernel's list, the others told their names by events.
 * Containers are known by the addresses that the kernel's table of objects shows, disks by its log,
 * grants by the entries to which this program can walk.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pstore.h"
#include "trace.h"

enum { PROCESSES_MAX = 1024, OBJECTS_MAX = 256, DISKS_MAX = 16, TEXT_BYTES = 65536,
       GRANTS_MAX = 4096 };

static struct { uint32_t pid; char name[KD_NAME_MAX]; } processes[PROCESSES_MAX];
static struct { uint64_t base, pages; char name[KD_NAME_MAX]; } objects[OBJECTS_MAX];
static char disks[DISKS_MAX][24], text[TEXT_BYTES + 1];
static struct { uint64_t serial; char *path; } grants[GRANTS_MAX];
static unsigned process_count, object_count, disk_count, grant_count;

const char *const event_names[KD_TRACE_KINDS] = {
#define NAME_OF(name, c, a, b, always) #name,
    KD_TRACE_LIST(NAME_OF)
#undef NAME_OF
};

static void process_add(uint32_t pid, const char *name, size_t bytes)
{
    unsigned i = 0;
    while (i < process_count && processes[i].pid != pid)
        i++;
    if (i == PROCESSES_MAX)
        return;
    process_count += i == process_count;
    processes[i].pid = pid;
    snprintf(processes[i].name, sizeof processes[i].name, "%.*s", (int)bytes, name);
}

static void processes_learn(const struct trace *t)
{
    static struct kd_process_info all[256];
    long n = kd_call3(KD_PROCESS_LIST, (long)all, 256, 0);
    for (size_t i = 0; i < t->count; i++)
        if (t->events[i].kind == KD_TRACE_NAME)
            process_add(t->events[i].c, (const char *)&t->events[i].a, 16);
    for (long i = 0; i < n && i < 256; i++)
        process_add((uint32_t)all[i].pid, all[i].name, sizeof all[i].name);
}

/* Lines `0xBASE PAGES pages, ... users  NAME`. */
static void object_learn(const char *line)
{
    char *end;
    uint64_t base = strtoull(line, &end, 16), pages = strtoull(end, &end, 10);
    const char *name = strstr(end, "users");
    name = name ? strstr(name, "  ") : NULL;
    if (!base || !pages || !name || object_count == OBJECTS_MAX)
        return;
    objects[object_count].base = base;
    objects[object_count].pages = pages;
    snprintf(objects[object_count++].name, KD_NAME_MAX, "%s", name + 2);
}

/* Lines `[...] disk NAME: N MiB, ...`, in the order of their numbers. */
static void disk_learn(const char *line)
{
    char name[24];
    unsigned long long mib;
    const char *at = strstr(line, "] disk ");
    if (at && disk_count < DISKS_MAX && sscanf(at, "] disk %23[^:]: %llu MiB", name, &mib) == 2)
        strcpy(disks[disk_count++], name);
}

static void lines_for(int what, void (*learn)(const char *line))
{
    long n = kd_call4(KD_LOOK, what, 0, (long)text, TEXT_BYTES);
    text[n > 0 ? n : 0] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        learn(line);
}

static int grant_learn(const char *path, const struct ps_entry *e, void *unused)
{
    (void)unused;
    if (grant_count == GRANTS_MAX)
        return 1;
    grants[grant_count].serial = e->grant;
    grants[grant_count++].path = strdup(path);
    return 0;
}

void names_learn(const struct trace *t)
{
    if (ps_connect(NULL) == 0)
        ps_walk("", grant_learn, NULL);
    processes_learn(t);
    lines_for(KD_LOOK_OBJECTS, object_learn);
    lines_for(KD_LOOK_LOG, disk_learn);
}

const char *process_name(uint32_t pid)
{
    for (unsigned i = 0; i < process_count; i++)
        if (processes[i].pid == pid)
            return processes[i].name;
    return pid ? "?" : "kernel";
}

const char *grant_path(uint64_t serial)
{
    for (unsigned i = 0; i < grant_count; i++)
        if (grants[i].serial == serial)
            return grants[i].path;
    return NULL;
}

const char *object_name(uint64_t address, uint64_t *offset)
{
    for (unsigned i = 0; i < object_count; i++) {
        *offset = address - objects[i].base;
        if (*offset < objects[i].pages * KD_PAGE_BYTES)
            return objects[i].name;
    }
    return NULL;
}

void names_write(void *file)
{
    static const char *const labels[KD_TRACE_KINDS][3] = {
#define LABELS_OF(name, c, a, b, always) {c, a, b},
        KD_TRACE_LIST(LABELS_OF)
#undef LABELS_OF
    };
    for (unsigned i = 0; i < KD_TRACE_KINDS; i++)
        fprintf(file, "event\t%u\t%s\t%s\t%s\t%s\n", i, event_names[i], labels[i][0], labels[i][1],
                labels[i][2]);
    for (unsigned i = 0; i < process_count; i++)
        fprintf(file, "process\t%u\t%s\n", processes[i].pid, processes[i].name);
    for (unsigned i = 0; i < object_count; i++)
        fprintf(file, "object\t%llx\t%llu\t%s\n", (unsigned long long)objects[i].base,
                (unsigned long long)objects[i].pages, objects[i].name);
    for (unsigned i = 0; i < disk_count; i++)
        fprintf(file, "disk\t%u\t%s\n", i, disks[i]);
}
