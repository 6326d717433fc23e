/*
 * linux_process.c - processes: arguments, ends of all kinds, hostile programs and files.
 *
 * Aim     a program's mistakes end that program, with the right status, and cost nobody anything.
 * Method  this program starts itself with the name of a role; ELF files are made from its own by
 *         breaking one field each.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "tap.h"

#define HELD_BYTES (40u << 20)

static char self[128];

static long create(const char *path, const char *const *argv, int *pid, int out)
{
    static const char *const envp[] = {"COLOUR=green", NULL};
    struct kd_process_create c = {.path = path, .argv = argv, .envp = envp, .fds = {-1, out, -1}};
    long handle = syscall(KD_PROCESS_CREATE, &c);
    if (handle < 0)
        return -errno;
    syscall(KD_HANDLE_CLOSE, handle);
    *pid = c.pid;
    return 0;
}

/* Runs a role; its status. */
static int run(const char *role)
{
    const char *const argv[] = {self, role, "two words", "", NULL};
    int pid, status = -1;
    if (create(self, argv, &pid, -1))
        return -1;
    return syscall(KD_PROCESS_WAIT, pid, &status, 0) == pid ? status : -1;
}

/* ---- roles ---- */

static volatile char sink;

static void *leave_all(void *arg)
{
    usleep(1000);
    exit(*(int *)arg);
}

static int recurse(int n)
{
    char room[4096];
    memset(room, n, sizeof(room));
    sink = room[n & 4095];
    return n < 0 ? n : recurse(n + 1) + room[0];
}

static int role_threads(void)
{
    static int status = 17;
    pthread_t t;
    pthread_create(&t, NULL, leave_all, &status);
    usleep(20000000);
    return 1;
}

static int role_orphan(void)
{
    const char *const argv[] = {self, "sleep", NULL};
    int pid;
    return create(self, argv, &pid, -1) ? 1 : 0;
}

__attribute__((used, noinline)) static int role_greedy(void)
{
    for (size_t n = 0;; n++) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return n > 16 && errno == ENOMEM ? 0 : 1;
    }
}

/* Touches all that it gets. */
static int role_hog(void)
{
    for (;;) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return 0;
        memset(p, 1, 1 << 20);
    }
}

/* Holds memory for ever. */
static void role_hold(void)
{
    volatile char *held = malloc(HELD_BYTES);
    for (size_t i = 0; held && i < HELD_BYTES; i += 4096)
        held[i] = 1;
    write(1, "held", 4);
    usleep(20000000);
}

/* Does what ends a program, if this role does. */
static void role_fault(const char *r)
{
    if (strcmp(r, "wild") == 0)
        *(volatile int *)0x123456789000 = 1;
    if (strcmp(r, "null") == 0)
        sink = *(volatile char *)NULL;
    if (strcmp(r, "kernel") == 0)
        sink = *(volatile char *)0xffffffff80000000;
    if (strcmp(r, "odd") == 0)
        sink = *(volatile char *)0x8000000000000000; /* not a canonical address */
    if (strcmp(r, "text") == 0)
        *(volatile char *)(uintptr_t)role_greedy = 0;
    if (strcmp(r, "data") == 0)
        ((void (*)(void))(uintptr_t)self)();
    if (strcmp(r, "divide") == 0)
        __asm__ volatile("div %b0" : : "r"(0), "a"(1));
    if (strcmp(r, "privileged") == 0)
        __asm__ volatile("cli");
    if (strcmp(r, "breakpoint") == 0)
        __asm__ volatile("int3");
    if (strcmp(r, "abort") == 0)
        abort();
}

static int role(int argc, char **argv)
{
    const char *r = argv[1];
    role_fault(r);
    if (strcmp(r, "arguments") == 0)
        return argc == 4 && strcmp(argv[2], "two words") == 0 && argv[3][0] == 0 && !argv[4]
            && getenv("COLOUR") && strcmp(getenv("COLOUR"), "green") == 0 ? 42 : 1;
    if (strcmp(r, "hello") == 0)
        return printf("hello from %d\n", getpid()) < 0;
    if (strcmp(r, "stack") == 0)
        return recurse(1);
    if (strcmp(r, "threads") == 0)
        return role_threads();
    if (strcmp(r, "sleep") == 0)
        usleep(20000000);
    if (strcmp(r, "spin") == 0)
        for (;;)
            sink++;
    if (strcmp(r, "orphan") == 0)
        return role_orphan();
    if (strcmp(r, "greedy") == 0)
        return role_greedy();
    if (strcmp(r, "hog") == 0)
        return role_hog();
    if (strcmp(r, "hold") == 0)
        role_hold();
    return 99;
}

/* ---- tests ---- */

static void ends(void)
{
    static const struct { const char *role; int status; } cases[] = {
        {"arguments", 42}, {"wild", 139}, {"null", 139}, {"kernel", 139}, {"odd", 139},
        {"text", 139}, {"data", 139}, {"divide", 136}, {"privileged", 139}, {"breakpoint", 133},
        {"stack", 139}, {"abort", 134}, {"threads", 17}, {"greedy", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status = run(cases[i].role);
        tap_ok(status == cases[i].status, "%s_ends_with_%d (%d)", cases[i].role, cases[i].status,
               status);
    }
}

static int kill_role(const char *name)
{
    const char *const argv[] = {self, name, NULL};
    int pid, status = -1;
    if (create(self, argv, &pid, -1))
        return -1;
    usleep(20000);
    if (syscall(KD_PROCESS_WAIT, pid, &status, KD_WAIT_NOHANG) != 0)
        return -2;
    if (syscall(KD_PROCESS_KILL, pid, 137) != 0)
        return -3;
    syscall(KD_PROCESS_WAIT, pid, &status, 0);
    return status;
}

static void kills(void)
{
    int status = 5;
    tap_ok(kill_role("sleep") == 137, "a_sleeper_is_killed");
    tap_ok(kill_role("spin") == 137, "a_spinner_is_killed");
    tap_ok(syscall(KD_PROCESS_KILL, 999999, 1) < 0 && errno == ESRCH
               && syscall(KD_PROCESS_KILL, 1, 1) < 0 && errno == EPERM, "some_cannot_be_killed");
    tap_ok(syscall(KD_PROCESS_WAIT, -1, &status, 0) < 0 && errno == ECHILD
               && syscall(KD_PROCESS_WAIT, 1, &status, 0) < 0 && errno == ECHILD && status == 5,
           "only_children_are_waited_for");
}

static void output_goes_where_it_should(void)
{
    const char *const argv[] = {self, "hello", NULL};
    char text[64] = "", want[64];
    int ends[2], pid, status;
    pipe(ends);
    long error = create(self, argv, &pid, ends[1]);
    close(ends[1]);
    ssize_t n = 0, r;
    while (!error && (r = read(ends[0], text + n, sizeof(text) - 1 - (size_t)n)) > 0)
        n += r;
    close(ends[0]);
    syscall(KD_PROCESS_WAIT, pid, &status, 0);
    snprintf(want, sizeof(want), "hello from %d\n", pid);
    tap_ok(!error && strcmp(text, want) == 0, "output_goes_into_a_pipe");
}

static void orphans_find_a_parent(void)
{
    struct kd_process_info list[64];
    int adopted = 0, pid = 0;
    int status = run("orphan");
    long n = syscall(KD_PROCESS_LIST, list, 64);
    for (long i = 0; i < n && i < 64; i++)
        if (strcmp(list[i].name, "linux_process") == 0 && list[i].parent == 1)
            adopted++, pid = list[i].pid;
    tap_ok(status == 0 && adopted == 1, "orphans_find_a_parent");
    tap_ok(syscall(KD_PROCESS_KILL, pid, 9) == 0, "and_can_be_killed");
}

/* ---- ELF ---- */

static unsigned char *image;
static size_t image_bytes;

static long try_image(size_t bytes)
{
    const char *const argv[] = {"broken", "arguments", "two words", "", NULL};
    int status, pid, fd = open("/tmp/broken", O_CREAT | O_TRUNC | O_WRONLY, 0700);
    if (write(fd, image, bytes) != (ssize_t)bytes)
        return -EIO;
    close(fd);
    long error = create("/tmp/broken", argv, &pid, -1);
    if (!error) {
        syscall(KD_PROCESS_WAIT, pid, &status, 0);
        return status;
    }
    return error;
}

static void load_image(void)
{
    struct stat s;
    int fd = open(self, O_RDONLY);
    fstat(fd, &s);
    image_bytes = (size_t)s.st_size;
    image = malloc(image_bytes);
    if (read(fd, image, image_bytes) != s.st_size)
        image_bytes = 0;
    close(fd);
}

static Elf64_Phdr *segment(int flags)
{
    Elf64_Ehdr *h = (void *)image;
    Elf64_Phdr *p = (void *)(image + h->e_phoff);
    for (int i = 0; i < h->e_phnum; i++)
        if (p[i].p_type == PT_LOAD && (int)p[i].p_flags == flags)
            return &p[i];
    return p;
}

#define REFUSED(name, field, value)                                                               \
    do {                                                                                          \
        load_image();                                                                             \
        h = (void *)image;                                                                        \
        text = segment(PF_R | PF_X);                                                              \
        data = segment(PF_R | PF_W);                                                              \
        (void)h, (void)text, (void)data;                                                          \
        field = value;                                                                            \
        long r = try_image(image_bytes);                                                          \
        tap_ok(r == -ENOEXEC || r == -ENOMEM, "elf_%s_is_refused (%ld)", name, r);                \
        free(image);                                                                              \
    } while (0)

/* Where the part that is mapped ends. */
static size_t loaded_bytes(void)
{
    const Elf64_Ehdr *h = (void *)image;
    const Elf64_Phdr *p = (void *)(image + h->e_phoff);
    size_t end = 0;
    for (int i = 0; i < h->e_phnum; i++)
        if (p[i].p_type == PT_LOAD && p[i].p_offset + p[i].p_filesz > end)
            end = p[i].p_offset + p[i].p_filesz;
    return end;
}

static void hostile_images(void)
{
    Elf64_Ehdr *h;
    Elf64_Phdr *text, *data;
    load_image();
    tap_ok(try_image(image_bytes) == 42, "a_copy_of_a_program_runs_from_tmp");
    int good = 1;
    for (size_t n = 0; n < image_bytes; n += n < 1000 ? 37 : 4099)
        good &= try_image(n) == -ENOEXEC || n >= loaded_bytes(); /* debug data may be missing */
    tap_ok(good, "elf_cut_at_any_length_is_refused");
    free(image);
    REFUSED("magic", h->e_ident[0], 0);
    REFUSED("class", h->e_ident[4], 1);
    REFUSED("machine", h->e_machine, 3);
    REFUSED("type", h->e_type, ET_DYN);
    REFUSED("no_segments", h->e_phnum, 0);
    REFUSED("many_segments", h->e_phnum, 17);
    REFUSED("segment_size", h->e_phentsize, 55);
    REFUSED("segments_outside", h->e_phoff, UINT64_MAX - 100);
    REFUSED("entry_in_data", h->e_entry, data->p_vaddr);
    REFUSED("entry_nowhere", h->e_entry, 0x123456789000);
    REFUSED("file_over_memory", data->p_filesz, data->p_memsz + 1);
    REFUSED("offset_outside", data->p_offset, UINT64_MAX - 0xfff + data->p_vaddr % 4096);
    REFUSED("length_wraps", data->p_memsz, UINT64_MAX - data->p_vaddr + 2);
    REFUSED("kernel_address", text->p_vaddr, 0xffffffff80000000);
    REFUSED("store_address", data->p_vaddr, 0x200000000000 + data->p_vaddr % 4096);
    REFUSED("null_page", text->p_vaddr, 0);
    REFUSED("overlap", data->p_vaddr, text->p_vaddr + data->p_vaddr % 4096);
    REFUSED("misaligned", data->p_vaddr, data->p_vaddr + 8);
    REFUSED("writable_code", text->p_flags, PF_R | PF_W | PF_X);
    REFUSED("huge_memory", data->p_memsz, 1ull << 36);
    REFUSED("interpreter", text->p_type, PT_INTERP);
    const char *const argv[] = {"x", NULL};
    int pid;
    tap_ok(create("/bin/none", argv, &pid, -1) == -ENOENT
               && create("/tmp", argv, &pid, -1) == -EACCES
               && create("/dev/null", argv, &pid, -1) == -EACCES
               && create("/etc/command", argv, &pid, -1) == -ENOEXEC,
           "what_is_no_program_is_refused");
    unlink("/tmp/broken");
}

static long free_memory(void)
{
    struct kd_system_info s;
    syscall(KD_SYSTEM_INFO, &s);
    return (long)s.free_bytes;
}

static void nothing_is_lost(void)
{
    static const char *const roles[] = {"arguments", "wild", "threads", "greedy", "abort"};
    for (int i = 0; i < 5; i++)
        run(roles[i]);
    usleep(50000);
    long before = free_memory();
    for (int i = 0; i < 50; i++)
        run(roles[i % 5]);
    usleep(50000);
    long lost = before - free_memory();
    printf("# %ld bytes\n", lost);
    tap_ok(lost < 64 * 1024, "fifty_processes_leave_nothing");
    const char *const argv[] = {self, "hold", NULL};
    int pid, held = -1, ends[2];
    char text[4];
    pipe(ends);
    create(self, argv, &pid, ends[1]);
    close(ends[1]);
    tap_ok(read(ends[0], text, 4) == 4, "a_process_holds_memory");
    close(ends[0]);
    int status = run("hog");
    tap_ok(status == 137, "who_wants_more_memory_than_there_is_ends (%d)", status);
    tap_ok(syscall(KD_PROCESS_KILL, pid, 137) == 0
               && syscall(KD_PROCESS_WAIT, pid, &held, 0) == pid && held == 137, "and_ends_alone");
    usleep(50000);
    tap_ok(before - free_memory() < 64 * 1024, "and_gives_it_back");
    tap_ok(syscall(KD_CHECK) == 0, "kcheck");
}

/* On Linux the parent would wait for the child, and see what it wrote: linux.md. */
static void vfork_is_a_fork(void)
{
    static volatile int written;
    int ends[2], status;
    char c;
    pipe(ends);
    long pid = syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0);
    if (pid == 0) {
        written = 1;
        _exit(read(ends[0], &c, 1) == 1 ? 7 : 8);
    }
    write(ends[1], "x", 1);
    tap_ok(waitpid((int)pid, &status, 0) == pid && WEXITSTATUS(status) == 7 && !written,
           "a_child_of_vfork_has_copies_and_its_parent_runs_on");
    close(ends[0]), close(ends[1]);
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    snprintf(self, sizeof(self), "/bin/%s", strcmp(argv[0], "broken") == 0 ? "linux_process"
             : name ? name + 1 : argv[0]);
    if (argc > 1)
        return role(argc, argv);
    tap_plan(52);
    ends();
    kills();
    output_goes_where_it_should();
    orphans_find_a_parent();
    hostile_images();
    vfork_is_a_fork();
    nothing_is_lost();
    return tap_end();
}
