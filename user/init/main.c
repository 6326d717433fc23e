/*
 * main.c - the first process: makes files of the boot module, keeps the store manager running,
 * starts the shell, halts the machine.
 *
 * Before it halts it has the store manager end: all pages at home, the store closed as clean.
 *
 * The store managers, one for each store disk, come first, and the shell only when they answer or
 * have given up, so that programs find the stores at once. When one dies later it is started again:
 * that is the ordinary recovery, and its clients connect again.
 *
 * In a site `link` is started behind them, and again when it dies.
 *
 * Deaths count while each comes soon after the one before. After too many of a store manager the
 * store is left alone, since its clients had better hear of that than wait. After too many of
 * `link` or a keeper the next one is started later: a site that runs for years has a way back.
 *
 * The system's handle is passed on with what each needs: to a store manager disks and names, to the
 * shell all but the power. What the shell starts has it only if the shell says so (`allow`).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "files.h"
#include "../store/copy_protocol.h"
#include "store_protocol.h"

#define COMMAND_BYTES_MAX 61440
#define DEATHS_MAX 8            /* of a program that dies again and again */
#define CALM_SECONDS 10         /* without a death, and those before do not count any more */
#define STOP_SECONDS_MAX 30     /* a halt waits so long for a store manager */

struct deaths { int count; time_t last; };

static struct manager {
    const char *name;
    int pid, restarts, kept, keeper;
    struct deaths deaths, keeper_deaths;
    int zone;                   /* of a store that is made, as the sites have agreed; 0 */
} managers[] = {
    {.name = "store", .kept = -1}, {.name = "store2", .kept = -1},
    {.name = "store3", .kept = -1}, {.name = "store4", .kept = -1}};
#define MANAGER_COUNT (sizeof(managers) / sizeof(managers[0]))

/* Of a machine that is a site (user/sites/sites.md): the options of `link`, a key among them, which
 * nobody else is to read. -1: it is none. */
#define SITE_FILE "/etc/site"
static struct {
    int options, pid, starts;
    struct deaths deaths;
    char grace[12];
} site = {.options = -1};

static const char banner[] =
    "\n"
    "Katydid: memory that stays. Type `help` for what the shell can do, or begin with\n"
    "  todo add milk        a to-do list in 60 lines of C; it survives whatever comes\n"
    "  wn-import /import    WordNet into memory, for good; then: wn dog\n"
    "  halt                 leaves. Ctrl-] X leaves QEMU at once, which is no power cut:\n"
    "                       `make crash` on the host makes real ones, and checks what they leave.\n"
    "\n";

/* `rights`: of the system's handle, which becomes KD_SYSTEM_HANDLE of the program, too. `in`: what
 * it reads from, or -1: the console. */
static int start(const char *path, const char *const *argv, uint32_t rights, int in)
{
    static const char *const envp[] = {"PATH=/bin", "HOME=/tmp", "TERM=vt100", NULL};
    struct kd_process_create c = {.path = path, .argv = argv, .envp = envp, .fds = {in, -1, -1},
                                  .handle_count = rights != 0};
    if (rights)
        c.handles[KD_SYSTEM_HANDLE] = (int32_t)syscall(KD_HANDLE_COPY, KD_SYSTEM_HANDLE, rights);
    long handle = syscall(KD_PROCESS_CREATE, &c);
    int result = handle < 0 ? -errno : c.pid;
    if (rights)
        syscall(KD_HANDLE_CLOSE, c.handles[KD_SYSTEM_HANDLE]);
    if (handle >= 0)
        syscall(KD_HANDLE_CLOSE, handle);
    return result;
}

/* Waits until the store answers or its manager has ended, with *status. True: it answers, or it is
 * one of two copies and waits until it is home; then it needs link for that. */
static bool store_wait(const char *name, int pid, int *status)
{
    const struct timespec moment = {.tv_nsec = 500000};
    for (;;) {
        long handle = syscall(KD_NAME_FIND, name);
        if (handle < 0 && strcmp(name, "store") == 0)
            handle = syscall(KD_NAME_FIND, COPY_PORT);
        if (handle >= 0) {
            syscall(KD_HANDLE_CLOSE, handle);
            return true;
        }
        if (syscall(KD_PROCESS_WAIT, pid, status, KD_WAIT_NOHANG) != 0)
            return false;
        nanosleep(&moment, NULL);
    }
}

static bool disk_there(const char *name)
{
    struct kd_block_info info;
    long handle = syscall(KD_BLOCK_OPEN, name, &info);
    if (handle >= 0)
        syscall(KD_HANDLE_CLOSE, handle);
    return handle >= 0 || errno != ENODEV;
}

/* Starts a store manager. Its pid stays 0 if it does not want to run: it says why itself. Without
 * any disk the first one is started, too, and says that. False: it died before it answered. */
static bool store_start_once(struct manager *m, int *status)
{
    char life[12], zone[12];
    const char *const argv[] = {"/bin/store", life, m->name, *site.grace ? site.grace : NULL,
                                m->zone ? zone : NULL, NULL};
    snprintf(life, sizeof(life), "%d", m->restarts);
    snprintf(zone, sizeof(zone), "%d", m->zone);
    m->pid = 0;
    if (access("/bin/store", F_OK) || (m != managers && !disk_there(m->name)))
        return true;
    int pid = start("/bin/store", argv, KD_RIGHT_DISKS | KD_RIGHT_NAMES, -1);
    if (pid < 0)
        fprintf(stderr, "init: cannot start /bin/store: %s\n", strerror(-pid));
    else if (store_wait(m->name, pid, status))
        m->pid = pid;
    else
        return *status == STORE_EXIT_NO_DISK || *status == STORE_EXIT_REFUSED;
    return true;
}

/* Counts a death. False: it was one too many of those that came soon after each other. */
static bool death_counted(struct deaths *d)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec - d->last >= CALM_SECONDS)
        d->count = 0;
    d->last = now.tv_sec;
    return d->count++ < DEATHS_MAX;
}

/* Starts a program that takes the place of one which dies too often, until that may try again. Its
 * own end, not with 0 either, is then a death that comes late enough to be the first. */
static int pause_start(const char *name)
{
    char seconds[24];
    const char *const argv[] = {"/bin/sh", "-c", seconds, NULL};
    snprintf(seconds, sizeof(seconds), "sleep %d; false", CALM_SECONDS);
    fprintf(stderr, "init: %s ends again and again: the next one starts in %d s\n", name,
            CALM_SECONDS);
    return start(argv[0], argv, 0, -1);
}

/* True: it is to be started again. */
static bool death_counts(struct manager *m, int status)
{
    bool copies = status == COPY_EXIT, again = copies || death_counted(&m->deaths);
    m->restarts += !copies;
    fprintf(stderr, "init: the %s manager ended with status %d%s\n", m->name, status,
            again ? ": starting it again" : ", again: left alone");
    m->pid = 0;
    return again;
}

/* A port by whose name clients see that a manager that is dead at the moment will be back
 * (STORE_KEPT). */
static void store_keep(struct manager *m, bool keep)
{
    char name[KD_NAME_MAX];
    snprintf(name, sizeof(name), STORE_KEPT "%s", m->name);
    if (keep && m->kept < 0) {
        m->kept = (int)syscall(KD_PORT_CREATE, 0);
        syscall(KD_NAME_SET, name, m->kept);
    } else if (!keep && m->kept >= 0) {
        syscall(KD_HANDLE_CLOSE, m->kept);
        m->kept = -1;
    }
}

/* It starts the programs that are managers of containers, which the store must not do itself. */
static void keeper_start(struct manager *m)
{
    const char *const argv[] = {"/bin/keeper", m->name, NULL};
    m->keeper = access(argv[0], F_OK) ? 0 : start(argv[0], argv, KD_RIGHT_PROCESSES, -1);
}

/* The sites agree where the store that is to be made has its addresses. */
static void zone_agree(struct manager *m)
{
    static const char *const argv[] = {"/bin/link", "zone", NULL};
    int status = 0, pid = -ENODEV;
    if (site.options >= 0) {
        lseek(site.options, 0, SEEK_SET);
        pid = start(argv[0], argv, KD_RIGHT_DISKS | KD_RIGHT_NAMES, site.options);
    }
    if (pid > 0)
        syscall(KD_PROCESS_WAIT, pid, &status, 0);
    if (status >= 0 && wire_zone_valid((uint32_t)status) && status >= (int)WIRE_ZONE_SMALL)
        m->zone = status;
    else
        fprintf(stderr, "init: there is no zone for the %s: the kernel's log says why\n", m->name);
}

static void store_start(struct manager *m)
{
    int status;
    bool started = store_start_once(m, &status);
    if (!started && status == STORE_EXIT_ZONE && !m->zone) {
        zone_agree(m);
        started = !m->zone || store_start_once(m, &status);
    }
    while (!started && death_counts(m, status)) started = store_start_once(m, &status);
    store_keep(m, m->pid != 0);
    if (m->pid)
        keeper_start(m);
}

static void store_ended(int pid, int status)
{
    for (struct manager *m = managers; m < managers + MANAGER_COUNT; m++)
        if (m->keeper == pid && status) { /* 0: its store has ended */
            if (death_counted(&m->keeper_deaths))
                keeper_start(m);
            else
                m->keeper = pause_start("the keeper");
        } else if (m->pid == pid) {
            if (death_counts(m, status))
                store_start(m);
            else
                store_keep(m, false);
        }
}

/* False: it died before it answered. One that does not want to run (2) says why. */
static bool link_start_once(void)
{
    const char *const argv[] = {"/bin/link", site.starts++ ? "again" : NULL, NULL};
    int status = 0;
    lseek(site.options, 0, SEEK_SET);
    site.pid = start(argv[0], argv, KD_RIGHT_DISKS | KD_RIGHT_NAMES, site.options);
    if (site.pid < 0)
        fprintf(stderr, "init: cannot start /bin/link: %s\n", strerror(-site.pid));
    else if (!store_wait("link", site.pid, &status) && status == 2)
        fprintf(stderr, "init: link does not run: the kernel's log says why\n");
    else
        return status == 0;
    return true;
}

/* The connections with other sites; programs find them at once, as they do the stores. */
static void link_start(void)
{
    while (site.options >= 0 && !link_start_once())
        if (!death_counted(&site.deaths)) {
            site.pid = pause_start("link");
            break;
        }
}

static void link_ended(void)
{
    if (death_counted(&site.deaths))
        link_start();
    else
        site.pid = pause_start("link");
}

/* What another site was granted here may be used there for two leases (link.c) behind the last word
 * of a link that is no more, and stores have to know. */
static void site_look(void)
{
    enum { LEASE_MS = 250 };
    unsigned lease = LEASE_MS;
    char line[256];
    FILE *f = fopen(SITE_FILE, "r");
    if (!f)
        return;
    while (fgets(line, sizeof(line), f))
        sscanf(line, "lease=%u", &lease);
    fclose(f);
    snprintf(site.grace, sizeof(site.grace), "%u", 2 * lease);
    site.options = open(SITE_FILE, O_RDONLY | O_CLOEXEC);
    if (site.options >= 0 && unlink(SITE_FILE))
        fprintf(stderr, "init: %s stays: %s\n", SITE_FILE, strerror(errno));
}

/* The text of /etc/command, or NULL: this is an interactive boot. */
static char *command_read(void)
{
    static char text[COMMAND_BYTES_MAX];
    FILE *f = fopen("/etc/command", "r");
    if (!f)
        return NULL;
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    if (n == sizeof(text) - 1)
        fprintf(stderr, "init: /etc/command is too long: cut off\n");
    text[n] = 0;
    fclose(f);
    return text;
}

/* Nobody types while commands are run (scripts/run -c): they read an end of file. */
static int shell_start(char *command)
{
    const char *const with_command[] = {"/bin/sh", "-c", command, NULL};
    const char *const interactive[] = {"/bin/sh", NULL};
    if (!command)
        fputs(banner, stdout);
    fflush(stdout);
    int nothing = command ? open("/dev/null", O_RDONLY) : -1;
    int pid = start("/bin/sh", command ? with_command : interactive,
                    KD_RIGHTS_SYSTEM & ~(uint32_t)KD_RIGHT_HALT, nothing);
    if (nothing >= 0)
        close(nothing);
    return pid;
}

/* Waits for the shell; starts a dead store manager again meanwhile. The shell's status. */
static int supervise(int shell)
{
    for (;;) {
        int status = 0;
        long pid = syscall(KD_PROCESS_WAIT, -1, &status, 0);
        if (pid == shell)
            return status;
        if (pid < 0) {
            fprintf(stderr, "init: the shell is lost: %s\n", strerror(errno));
            return 1;
        }
        if (pid == site.pid)
            link_ended();
        else
            store_ended((int)pid, status); /* or an orphan's end */
    }
}

static bool export_wanted(void)
{
    DIR *d = opendir("/export");
    bool any = false;
    struct dirent *e;
    while (d && (e = readdir(d)))
        any |= strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d)
        closedir(d);
    return any && access("/bin/export", F_OK) == 0;
}

/* 0, or what went wrong: then the run as a whole has failed, too. */
static int export_run(void)
{
    static const char *const argv[] = {"/bin/export", NULL};
    int status = 1;
    int pid = start("/bin/export", argv, KD_RIGHT_DISKS, -1);
    if (pid < 0 || syscall(KD_PROCESS_WAIT, pid, &status, 0) < 0)
        fprintf(stderr, "init: cannot export: %s\n", strerror(pid < 0 ? -pid : errno));
    return status;
}

static void *store_stop_call(void *port)
{
    struct kd_message m = {.kind = STORE_STOP, .handle = -1};
    syscall(KD_PORT_CALL, (long)port, &m);
    return NULL;
}

/* The manager brings all home and ends; it says itself what went wrong. One that does not answer
 * is left alone: the next start recovers. */
static void store_stop(const char *name)
{
    pthread_t thread;
    struct timespec until;
    long port = syscall(KD_NAME_FIND, name);
    if (port < 0 || pthread_create(&thread, NULL, store_stop_call, (void *)port))
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_SECONDS_MAX;
    if (pthread_timedjoin_np(thread, NULL, &until))
        fprintf(stderr, "init: the %s manager does not end: halting without it\n", name);
}

int main(void)
{
    if (getpid() != 1) {
        fputs("init: it runs already, as the first process; `halt` leaves, `sh` is another shell\n",
              stderr);
        return 1;
    }
    files_make();
    site_look();
    for (size_t i = 0; i < MANAGER_COUNT; i++)
        store_start(&managers[i]);
    link_start();
    int shell = shell_start(command_read());
    int status = 127;
    if (shell > 0)
        status = supervise(shell);
    else
        fprintf(stderr, "init: cannot start /bin/sh: %s\n", strerror(-shell));
    if (export_wanted()) {
        int error = export_run();
        status = status ? status : error;
    }
    for (size_t i = 0; i < MANAGER_COUNT; i++)
        store_stop(managers[i].name);
    syscall(KD_HALT, status);
    return status;
}
