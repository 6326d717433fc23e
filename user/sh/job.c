/*
 * job.c - pipelines under way: waiting for one, and those in the background.
 *
 * A job has a number, the processes of one pipeline and its text. The shell asks for its children
 * by their pids only, so a job's processes are either running or have their status here.
 */
#include "sh.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <katydid/abi.h>

#define JOBS_MAX 64
#define JOB_TEXT_BYTES 72
#define CTRL_C 3
#define LOOK_NS 20000000

struct job {
    int number;                    /* 0: the entry is free */
    int count;
    struct process processes[COMMANDS_MAX];
    char text[JOB_TEXT_BYTES];
};
static struct job jobs[JOBS_MAX];
static int newest;

/* True: it is over. */
static bool process_poll(struct process *p)
{
    long r = p->pid > 0 ? syscall(KD_PROCESS_WAIT, p->pid, &p->status, KD_WAIT_NOHANG) : -1;
    if (p->pid > 0 && r == 0)
        return false;
    if (p->pid > 0 && r < 0)
        p->status = 1;
    p->pid = 0;
    return true;
}

int process_wait(struct process *p)
{
    if (p->pid > 0 && syscall(KD_PROCESS_WAIT, p->pid, &p->status, 0) < 0)
        p->status = 1;
    p->pid = 0;
    return p->status;
}

static bool job_poll(struct job *j)
{
    bool over = true;
    for (int i = 0; i < j->count; i++)
        over &= process_poll(&j->processes[i]);
    return over;
}

static int job_status(const struct job *j)
{
    return j->processes[j->count - 1].status;
}

bool job_add(const struct process *processes, int count, const char *text, int bytes)
{
    struct job *j = jobs;
    while (j < jobs + JOBS_MAX && j->number)
        j++;
    if (j == jobs + JOBS_MAX)
        return false;
    if (newest == 0 || !jobs_running())
        newest = 0;
    j->number = ++newest;
    j->count = count;
    memcpy(j->processes, processes, (size_t)count * sizeof(*processes));
    snprintf(j->text, sizeof(j->text), "%.*s", bytes, text);
    if (interactive && processes[count - 1].pid > 0)
        printf("[%d] %d\n", j->number, processes[count - 1].pid);
    return true;
}

bool jobs_running(void)
{
    for (struct job *j = jobs; j < jobs + JOBS_MAX; j++)
        if (j->number)
            return true;
    return false;
}

/* How a job that is over ended: "done", "killed" or "status 3", perhaps in `text`. */
static const char *job_end(const struct job *j, char text[16])
{
    int status = job_status(j);
    snprintf(text, 16, "status %d", status);
    return status == 0                                          ? "done"
           : status == 128 + SIGKILL || status == 128 + SIGTERM ? "killed"
                                                                : text;
}

void jobs_report(void)
{
    for (struct job *j = jobs; j < jobs + JOBS_MAX; j++) {
        if (!j->number || !job_poll(j))
            continue;
        char end[16];
        printf("[%d] %s  %s\n", j->number, job_end(j, end), j->text);
        j->number = 0;
    }
    fflush(stdout);
}

void jobs_list(int fd)
{
    char end[16];
    for (struct job *j = jobs; j < jobs + JOBS_MAX; j++)
        if (j->number)
            dprintf(fd, "[%d] %-8s %s\n", j->number, job_poll(j) ? job_end(j, end) : "running",
                    j->text);
}

/* `%N`, or a pid of one of its processes. */
static struct job *job_find(const char *name)
{
    int number = atoi(name + (*name == '%'));
    for (struct job *j = jobs; j < jobs + JOBS_MAX; j++) {
        if (j->number && *name == '%' && j->number == number)
            return j;
        for (int i = 0; j->number && *name != '%' && i < j->count; i++)
            if (j->processes[i].pid == number)
                return j;
    }
    return NULL;
}

/* Ctrl-C typed while the shell itself waits. */
static bool interrupted(void)
{
    char c;
    while (read(0, &c, 1) == 1)
        if (c == CTRL_C)
            return true;
    return false;
}

static void job_interrupt(const struct job *j)
{
    for (int i = 0; i < j->count; i++)
        if (j->processes[i].pid > 0)
            kill(j->processes[i].pid, SIGINT);
}

/* At a terminal the shell looks at the keys meanwhile. Ctrl-C: what came to the front is told; else
 * the wait is given up, and the job goes on. */
static int job_wait(struct job *j, bool in_front)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    struct termios cooked, raw;
    bool keys = interactive && tcgetattr(0, &cooked) == 0, given_up = false;
    if (keys) {
        raw = cooked;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
        raw.c_cc[VMIN] = 0;
        tcsetattr(0, TCSADRAIN, &raw);
    }
    if (in_front) { /* now that Ctrl-C is the job's */
        printf("%s\n", j->text);
        fflush(stdout);
    }
    if (keys) {
        while (!job_poll(j) && !given_up) {
            nanosleep(&look, NULL);
            bool pressed = interrupted();
            if (pressed && in_front)
                job_interrupt(j);
            given_up = pressed && !in_front;
        }
        tcsetattr(0, TCSADRAIN, &cooked);
    }
    if (given_up)
        return 130;
    for (int i = 0; i < j->count; i++)
        process_wait(&j->processes[i]);
    j->number = 0;
    return job_status(j);
}

int jobs_wait(const char *name)
{
    int status = 0;
    struct job *one = name ? job_find(name) : NULL;
    if (name)
        return one ? job_wait(one, false) : -1;
    for (struct job *j = jobs; j < jobs + JOBS_MAX && status != 130; j++)
        if (j->number)
            status = job_wait(j, false);
    return status;
}

int job_front(const char *name)
{
    struct job *j = name ? job_find(name) : NULL;
    for (struct job *i = jobs; !name && i < jobs + JOBS_MAX; i++)
        if (i->number && (!j || i->number > j->number))
            j = i;
    if (!j)
        return -1;
    return job_wait(j, true);
}

int job_kill(const char *name, int status)
{
    struct job *j = *name == '%' ? job_find(name) : NULL;
    if (*name != '%')
        return syscall(KD_PROCESS_KILL, atoi(name), status) < 0 ? -1 : 0;
    if (!j)
        return -1;
    for (int i = 0; i < j->count; i++)
        if (j->processes[i].pid > 0)
            syscall(KD_PROCESS_KILL, j->processes[i].pid, status);
    return 0;
}
