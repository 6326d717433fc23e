/*
 * linux_basic.c - what a plain C program expects of its system: memory, files, time, errors.
 *
 * Aim     the C library works as it does on Linux, and every bad argument gives an errno.
 * Method  ordinary calls; bad pointers, lengths and descriptors for each kind of call. Reads what
 *         linux_basic.opts attaches at /import.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "process.h"
#include "tap.h"

#define BAD ((void *)0x123456789000)  /* nothing there */
#define KERNEL ((void *)0xffffffff80000000)

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_sorts(void)
{
    enum { N = 50000 };
    uint32_t *v = malloc(N * sizeof(*v)), seed = 1;
    int good = v != NULL;
    for (int i = 0; good && i < N; i++)
        v[i] = seed = seed * 1664525 + 1013904223;
    qsort(v, N, sizeof(*v), compare);
    for (int i = 1; good && i < N; i++)
        good = v[i - 1] <= v[i];
    free(v);
    tap_ok(good, "qsort_sorts_50000_numbers");
}

static void heap_keeps_what_it_holds(void)
{
    enum { N = 400 };
    static unsigned char *piece[N];
    static size_t size[N];
    uint32_t seed = 7;
    int good = 1;
    for (int round = 0; round < 4000; round++) {
        seed = seed * 1664525 + 1013904223;
        int i = (int)(seed >> 8) % N;
        for (size_t k = 0; piece[i] && k < size[i]; k += 97)
            good &= piece[i][k] == (unsigned char)i;
        free(piece[i]);
        size[i] = (seed >> 4) % (i % 10 == 0 ? 300000 : 3000) + 1;
        piece[i] = malloc(size[i]);
        good &= piece[i] != NULL;
        if (piece[i])
            memset(piece[i], i, size[i]);
    }
    for (int i = 0; i < N; i++)
        free(piece[i]);
    tap_ok(good, "heap_keeps_what_it_holds");
}

static void memory_is_honest(void)
{
    void *p = malloc((size_t)64 << 30);
    tap_ok(p == NULL && errno == ENOMEM, "more_memory_than_there_is_is_refused");
    char *q = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int zero = q != MAP_FAILED;
    for (int i = 0; zero && i < 1 << 20; i += 61)
        zero = q[i] == 0;
    tap_ok(zero, "new_memory_is_zero");
    memset(q, 'x', 1 << 20);
    tap_ok(mprotect(q, 1 << 20, PROT_NONE) == 0 && mprotect(q, 1 << 20, PROT_READ) == 0
               && q[99999] == 'x', "protection_keeps_contents");
    int text = open("/etc/command", O_RDONLY);
    tap_ok(read(text, q, 1) < 0 && errno == EFAULT && q[0] == 'x', "calls_respect_protection");
    close(text);
    tap_ok(mprotect(q, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) < 0 && errno == EACCES,
           "writable_and_executable_is_refused");
    tap_ok(mmap(NULL, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
               == MAP_FAILED && errno == EACCES, "so_is_a_mapping_of_that_kind");
    munmap(q + 4096, 4096);
    tap_ok(mprotect(q, 1 << 20, PROT_READ) < 0 && errno == ENOMEM, "a_hole_is_noticed");
    munmap(q, 1 << 20);
    int fd = open("/dev/null", O_RDWR);
    tap_ok(write(fd, q, 10) == -1 && errno == EFAULT, "unmapped_memory_is_gone");
    close(fd);
}

/* What a program cannot change of its file is shown where the boot loader put it: no page of it is
 * the process's own, a child of fork finds it again, and it never becomes writable. */
static void code_is_nobodys_copy(void)
{
    static const char constant[64 << 10] = {[0 ... (64 << 10) - 1] = 'k'};
    char *page = (char *)((uintptr_t)(constant + 4095) & ~4095ul);
    uint64_t before = process_self().frames;
    size_t found = 0;
    for (size_t i = 0; i < sizeof constant; i++)
        found += *(const volatile char *)&constant[i] == 'k';
    tap_ok(found == sizeof constant && process_self().frames <= before + 2,
           "what_does_not_change_costs_a_process_no_frames");
    pid_t child = fork();
    if (!child)
        _exit(*(volatile char *)page);
    int status = 0;
    tap_ok(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 'k',
           "a_child_finds_it_again");
    tap_ok(mprotect(page, 4096, PROT_READ | PROT_WRITE) < 0 && errno == EACCES && *page == 'k',
           "it_never_becomes_writable");
}

static void mappings_refuse_nonsense(void)
{
    struct { uintptr_t at; size_t bytes; int fixed; } cases[] = {
        {0, 0, 0}, {1, 4096, 1}, {0x200000000000, 4096, 1}, {0xffff800000000000, 4096, 1},
        {0, SIZE_MAX, 0}, {0, SIZE_MAX - 4095, 0}, {4096, 4096, 1}, {0x7fffffff000, 1ul << 46, 1},
    };
    int good = 1;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        good &= syscall(SYS_mmap, cases[i].at, cases[i].bytes, PROT_READ,
                        MAP_PRIVATE | MAP_ANONYMOUS | (cases[i].fixed ? MAP_FIXED : 0), -1, 0)
            == -1;
    good &= munmap((void *)1, 4096) == -1 && munmap((void *)0x200000000000, 4096) == -1
        && munmap((void *)4096, SIZE_MAX) == -1;
    tap_ok(good, "mappings_refuse_nonsense");
    void *before = sbrk(0);
    tap_ok(syscall(SYS_brk, UINT64_MAX) == (long)before && syscall(SYS_brk, 0) == (long)before,
           "a_bad_break_changes_nothing");
}

static void files_hold_text(void)
{
    char line[64] = "";
    int n = 0, sum = 0;
    FILE *f = fopen("/tmp/numbers", "w");
    for (int i = 0; f && i < 20000; i++)
        fprintf(f, "%d\n", i);
    tap_ok(f && fclose(f) == 0, "a_file_is_written");
    f = fopen("/tmp/numbers", "r");
    while (f && fgets(line, sizeof(line), f))
        n++, sum += atoi(line);
    tap_ok(n == 20000 && sum == 199990000, "a_file_is_read_back");
    fseek(f, -6, SEEK_END);
    tap_ok(fgets(line, sizeof(line), f) && strcmp(line, "19999\n") == 0, "a_file_is_searched");
    fclose(f);
    f = fopen("/tmp/numbers", "a");
    fputs("end\n", f);
    fclose(f);
    struct stat s;
    tap_ok(stat("/tmp/numbers", &s) == 0 && s.st_size == 108890 + 4 && S_ISREG(s.st_mode),
           "appending_appends");
    int fd = open("/tmp/numbers", O_RDWR);
    tap_ok(ftruncate(fd, 5) == 0 && ftruncate(fd, 9000) == 0 && pread(fd, line, 8, 3) == 8
               && memcmp(line, "\n2\0\0\0\0\0\0", 8) == 0, "truncation_leaves_zeros");
    close(fd);
}

static void sparse_files_read_zeros(void)
{
    char c = 1;
    int fd = open("/tmp/sparse", O_RDWR | O_CREAT, 0600);
    tap_ok(pwrite(fd, "x", 1, 700 << 20) == 1 && pread(fd, &c, 1, 300 << 20) == 1 && c == 0,
           "sparse_files_read_zeros");
    tap_ok(pwrite(fd, "x", 1, 3l << 30) == -1 && errno == EFBIG, "there_is_a_largest_file");
    close(fd);
    unlink("/tmp/sparse");
}

static void names_behave(void)
{
    int fd = open("/tmp/a", O_CREAT | O_EXCL | O_WRONLY, 0600);
    tap_ok(fd >= 0 && open("/tmp/a", O_CREAT | O_EXCL | O_WRONLY, 0600) < 0 && errno == EEXIST,
           "exclusive_creation");
    tap_ok(unlink("/tmp/a") == 0 && write(fd, "abc", 3) == 3 && access("/tmp/a", F_OK) < 0,
           "a_removed_file_lives_until_it_is_closed");
    close(fd);
    tap_ok(mkdir("/tmp/d", 0700) == 0 && mkdir("/tmp/d", 0700) < 0 && errno == EEXIST, "mkdir");
    fclose(fopen("/tmp/d/one", "w"));
    tap_ok(rmdir("/tmp/d") < 0 && errno == ENOTEMPTY, "a_full_folder_stays");
    tap_ok(rename("/tmp/d/one", "/tmp/d/two") == 0 && access("/tmp/d/two", R_OK) == 0
               && rename("/tmp/d", "/tmp/d/inside") < 0, "rename");
    char path[64];
    tap_ok(chdir("/tmp/d") == 0 && getcwd(path, sizeof(path)) && strcmp(path, "/tmp/d") == 0
               && access("two", F_OK) == 0 && access("../d/./two", F_OK) == 0,
           "the_working_folder");
    tap_ok(unlink("two") == 0 && chdir("/") == 0 && rmdir("/tmp/d") == 0, "folders_are_removed");
    tap_ok(open("/bin/new", O_CREAT | O_WRONLY, 0600) < 0 && errno == EROFS
               && open("/bin/sh", O_WRONLY) < 0 && errno == EROFS && unlink("/bin/sh") < 0
               && rename("/bin/sh", "/tmp/sh") < 0 && mkdir("/new", 0700) < 0,
           "the_boot_archive_is_read_only");
    char long_name[600];
    memset(long_name, 'x', sizeof(long_name));
    memcpy(long_name, "/tmp/", 5);
    long_name[599] = 0;
    tap_ok(open(long_name, O_CREAT | O_WRONLY, 0600) < 0 && errno == ENAMETOOLONG
               && open("", O_RDONLY) < 0 && errno == ENOENT && open("/tmp/no/file", O_RDONLY) < 0
               && errno == ENOENT && open("/bin/sh/x", O_RDONLY) < 0 && errno == ENOTDIR,
           "bad_names_are_refused");
}

static int deep(const char *top, int folders, int (*what)(const char *path))
{
    char path[200];
    int n = snprintf(path, sizeof path, "%s", top);
    for (int i = 0; i < folders; i++)
        n += snprintf(path + n, sizeof path - (size_t)n, "/f");
    return what(path);
}

static int make_folder(const char *path) { return mkdir(path, 0700); }
static int move_high_here(const char *path)
{
    char to[220];
    snprintf(to, sizeof to, "%s/high", path);
    return rename("/tmp/high", to);
}

/* Walks go from a node up to the root, so the tree may not grow deeper by folders that bring their
 * own depth. */
static void folders_stay_shallow(void)
{
    enum { EACH = 20 };
    int made = 0;
    for (int i = 0; i <= EACH; i++)
        made += deep("/tmp/low", i, make_folder) == 0 && deep("/tmp/high", i, make_folder) == 0;
    tap_ok(made == EACH + 1 && deep("/tmp/low", EACH, move_high_here) < 0 && errno == ENOSPC,
           "a deep folder does not go into a deep folder");
    tap_ok(deep("/tmp/low", 2, move_high_here) == 0 && deep("/tmp/low/f/f/high", EACH, rmdir) == 0,
           "but into a shallow one");
    for (int i = EACH - 1; i >= 0; i--)
        deep("/tmp/low/f/f/high", i, rmdir);
    for (int i = EACH; i >= 0; i--)
        deep("/tmp/low", i, rmdir);
    tap_ok(access("/tmp/low", F_OK) < 0, "all of it is removed");
}

static void folders_are_listed(void)
{
    char name[300];
    int seen = 0;
    mkdir("/tmp/many", 0700);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "/tmp/many/%d", i);
        fclose(fopen(name, "w"));
    }
    DIR *d = opendir("/tmp/many");
    struct dirent *e;
    while (d && (e = readdir(d))) { /* removing while listing loses none */
        snprintf(name, sizeof(name), "/tmp/many/%s", e->d_name);
        seen += unlink(name) == 0;
    }
    closedir(d);
    tap_ok(seen == 300 && rmdir("/tmp/many") == 0, "folders_are_listed_while_they_change");
}

static void memory_for_files_is_limited(void)
{
    static char block[1 << 16];
    int fd = open("/tmp/big", O_CREAT | O_WRONLY, 0600), n = 0;
    ssize_t r;
    while ((r = write(fd, block, sizeof(block))) == sizeof(block))
        n++;
    r = write(fd, block, sizeof(block));
    tap_ok(n > 100 && r < 0 && errno == ENOSPC, "a_full_tmp_says_so");
    close(fd);
    unlink("/tmp/big");
    fd = open("/tmp/big", O_CREAT | O_WRONLY, 0600);
    tap_ok(write(fd, block, sizeof(block)) == sizeof(block), "and_has_room_again");
    close(fd);
    unlink("/tmp/big");
}

static void import_is_read(void)
{
    unsigned char *text = malloc(3 << 20);
    FILE *f = fopen("/import/linux_basic.c", "r");
    struct stat s;
    char word[16] = "";
    if (!tap_ok(f != NULL, "a_file_on_the_import_disk_opens"))
        return;
    tap_ok(fread(word, 1, 9, f) == 9 && memcmp(word, "/*\n * lin", 9) == 0, "it_can_be_read");
    tap_ok(stat("/import/linux_basic.c", &s) == 0 &&
               fread(text, 1, 3 << 20, f) == (size_t)s.st_size - 9 && feof(f),
           "to_its_end");
    char *m = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fileno(f), 0);
    tap_ok(m != MAP_FAILED && memcmp(m + 9, text, (size_t)s.st_size - 9) == 0, "and_be_mapped");
    fclose(f);
    tap_ok(open("/import/linux_basic.c", O_RDWR) < 0 && errno == EROFS, "but_not_written");
    tap_ok(open("/import/none", O_RDONLY) < 0 && errno == ENOENT, "what_is_not_there_is_not_there");
    free(text);
}

static void time_passes(void)
{
    struct timespec a, b, wait = {.tv_nsec = 30000000};
    clock_gettime(CLOCK_MONOTONIC, &a);
    nanosleep(&wait, NULL);
    clock_gettime(CLOCK_MONOTONIC, &b);
    double ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
    tap_ok(ms >= 30 && ms < 60000, "a_sleep_lasts_as_long_as_it_should");
    wait.tv_nsec = 1000000000;
    tap_ok(nanosleep(&wait, NULL) < 0 && errno == EINVAL && clock_gettime(99, &a) < 0
               && errno == EINVAL, "bad_times_are_refused");
}

static void bad_pointers_give_efault(void)
{
    int fds[2], bad = 0;
    void *const pointers[] = {BAD, KERNEL, NULL, (void *)UINT64_MAX, (void *)0x7ffffffffff8,
                              (void *)0x200000000000};
    int fd = open("/tmp/numbers", O_RDWR);
    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
        void *p = pointers[i];
        struct iovec v = {p, 16};
        struct { long result; const char *name; } calls[] = {
            {syscall(SYS_read, fd, p, 16), "read"}, {syscall(SYS_write, fd, p, 16), "write"},
            {syscall(SYS_readv, fd, &v, 1), "readv"}, {syscall(SYS_writev, fd, p, 3), "writev"},
            {syscall(SYS_open, p, 0), "open"}, {syscall(SYS_stat, p, p), "stat"},
            {syscall(SYS_stat, "/", p), "stat"}, {syscall(SYS_fstat, fd, p), "fstat"},
            {syscall(SYS_getcwd, p, 100), "getcwd"}, {syscall(SYS_pipe, p), "pipe"},
            {syscall(SYS_clock_gettime, 1, p), "clock_gettime"}, {syscall(SYS_uname, p), "uname"},
            {syscall(SYS_nanosleep, p, 0), "nanosleep"},
            {syscall(SYS_getrandom, p, 8, 0), "random"},
            {syscall(SYS_futex, p, 0, 0, 0), "futex"}, {syscall(SYS_chdir, p), "chdir"},
            {syscall(KD_PROCESS_CREATE, p), "create"}, {syscall(KD_SYSTEM_INFO, p), "info"},
            {syscall(KD_PROCESS_LIST, p, 10), "list"}, {syscall(KD_KERNEL_LOG, p, 10), "log"},
            {syscall(KD_NAME_FIND, p), "name_find"},
        };
        for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++)
            if (calls[k].result >= 0) {
                bad++;
                printf("# %s took %p: %ld\n", calls[k].name, p, calls[k].result);
            }
    }
    close(fd);
    tap_ok(bad == 0, "bad_pointers_give_errors");
    tap_ok(pipe(fds) == 0 && fds[0] >= 3 && fds[0] <= 4, "and_leak_no_descriptors");
    close(fds[0]);
    signal(SIGPIPE, SIG_IGN);
    tap_ok(write(fds[1], "x", 1) < 0 && errno == EPIPE, "a_pipe_without_reader_is_broken");
    close(fds[1]);
    tap_ok(read(77, &bad, 4) < 0 && errno == EBADF && close(-1) < 0 && dup2(0, 1000) < 0
               && errno == EBADF && lseek(0, 0, SEEK_SET) < 0 && errno == ESPIPE,
           "bad_descriptors_are_refused");
}

static void unknown_calls_are_counted(void)
{
    struct kd_system_info a, b;
    syscall(KD_SYSTEM_INFO, &a);
    long first = syscall(41), error = errno, second = syscall(999999), third = syscall(1999);
    syscall(KD_SYSTEM_INFO, &b);
    tap_ok(first == -1 && error == ENOSYS && second == -1 && third == -1 && errno == ENOSYS
               && b.unknown_calls == a.unknown_calls + 3, "unknown_calls_are_counted");
}

static void the_console_is_a_terminal(void)
{
    struct winsize w;
    tap_ok(isatty(1) && ioctl(1, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && !isatty(99),
           "the_console_is_a_terminal");
}

int main(void)
{
    tap_plan(51);
    sort_sorts();
    heap_keeps_what_it_holds();
    memory_is_honest();
    code_is_nobodys_copy();
    mappings_refuse_nonsense();
    files_hold_text();
    sparse_files_read_zeros();
    names_behave();
    folders_stay_shallow();
    folders_are_listed();
    memory_for_files_is_limited();
    import_is_read();
    time_passes();
    bad_pointers_give_efault();
    unknown_calls_are_counted();
    the_console_is_a_terminal();
    return tap_end();
}
