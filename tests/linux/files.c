/*
 * files.c - names, modes and descriptors: what a call does, or which errno says that it did not.
 * Prints the same on Linux and on Katydid.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what, long value)
{
    printf("%s %ld\n", what, value);
    fflush(stdout);
}

/* 0 or the errno. */
static long error_of(long result) { return result < 0 ? errno : 0; }

static void make(const char *name, const char *text)
{
    int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        exit(9);
    close(fd);
}

static char first(const char *name)
{
    char c = '-';
    int fd = open(name, O_RDONLY);
    if (read(fd, &c, 1) < 0)
        c = '?';
    close(fd);
    return c;
}

static long rename2(const char *from, const char *to, unsigned flags)
{
    return error_of(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags));
}

static void names_are_kept(void)
{
    enum { NO_REPLACE = 1 };
    make("a", "A"), make("b", "B");
    say("no replacement", rename2("a", "b", NO_REPLACE));
    say("both there", first("a") == 'A' && first("b") == 'B');
    say("a free name", rename2("a", "c", NO_REPLACE));
    say("moved", first("b") == 'B' && first("c") == 'A');
    say("an unknown flag", rename2("c", "b", 64));
}

static void folders_replace_empty_folders(void)
{
    mkdir("one", 0755), mkdir("two", 0755), make("one/x", "1"), make("file", "F");
    say("over an empty folder", error_of(rename("one", "two")));
    say("moved", first("two/x") == '1' && access("one", F_OK) < 0);
    mkdir("one", 0755);
    say("over a full folder", error_of(rename("one", "two")) == ENOTEMPTY);
    say("a file over a folder", error_of(rename("file", "one")));
    say("a folder over a file", error_of(rename("one", "file")));
    say("a folder into itself", error_of(rename("one", "one/in")));
    say("a folder that is a dot", error_of(rename("one/.", "three")));
}

static void slashes_mean_folders(void)
{
    make("plain", "P");
    say("making file/", error_of(open("new/", O_CREAT | O_WRONLY, 0644)));
    say("opening file/", error_of(open("plain/", O_RDONLY)));
    say("removing file/", error_of(unlink("plain/")));
    say("renaming file/", error_of(rename("plain/", "other")));
    say("renaming to file/", error_of(rename("plain", "other/")));
    say("making folder/", error_of(mkdir("slash/", 0755)));
    say("renaming folder/ to folder/", error_of(rename("slash/", "slash2/")));
    say("removing folder/", error_of(rmdir("slash2/")));
    say("still there", first("plain") == 'P');
    say("unlink of a dot", error_of(unlink("two/.")));
    say("rmdir of a dot", error_of(rmdir("two/.")));
}

static unsigned mode(const char *name)
{
    struct stat s;
    return stat(name, &s) ? 0 : s.st_mode & 07777;
}

static void modes_are_masked(void)
{
    say("umask before", umask(027));
    close(open("m1", O_CREAT | O_WRONLY, 0666));
    close(open("m2", O_CREAT | O_WRONLY, 0777));
    mkdir("m3", 0777);
    printf("modes %o %o %o\n", mode("m1"), mode("m2"), mode("m3"));
    say("umask", umask(0777077));
    say("masked itself", umask(0));
    close(open("m4", O_CREAT | O_WRONLY, 0604));
    mkdir("m5", 01777);
    printf("modes %o %o\n", mode("m4"), mode("m5"));
    close(open("m4", O_CREAT | O_WRONLY, 0777));
    printf("kept %o\n", mode("m4"));
    umask(051);
    fflush(stdout);
    if (fork() == 0)
        _exit((int)umask(0));
    int status = 0;
    wait(&status);
    say("a child has it", WEXITSTATUS(status));
    umask(022);
    say("may be run", error_of(access("m2", X_OK)));
    say("may not", error_of(access("m4", X_OK)));
    say("a strange question", error_of(access("m2", 8)));
}

static void nobody_runs_a_folder(void)
{
    char *const argv[] = {"x", NULL};
    say("exec of a folder", error_of(execve("two", argv, argv)));
    say("exec of a device", error_of(execve("/dev/null", argv, argv)));
}

static void descriptors_have_a_limit(void)
{
    struct rlimit l = {40, 40};
    setrlimit(RLIMIT_NOFILE, &l);
    say("at the limit", error_of(fcntl(1, F_DUPFD, 40)));
    say("over it", error_of(fcntl(1, F_DUPFD, 4000)));
    say("negative", error_of(fcntl(1, F_DUPFD, -1)));
    say("below it", fcntl(1, F_DUPFD, 39));
    say("none left", error_of(fcntl(1, F_DUPFD, 39)));
    say("closed", error_of(close(39)));
}

static void flags_count(void)
{
    int ends[2];
    struct stat s;
    char c;
    if (pipe(ends))
        exit(9);
    say("fsync of a pipe", error_of(fsync(ends[0])));
    say("pread of a pipe", error_of(pread(ends[0], &c, 1, 0)));
    say("a folder is not made", error_of(open("two", O_CREAT | O_RDONLY, 0644)));
    say("unlinkat with an unknown flag", error_of(unlinkat(AT_FDCWD, "plain", 0x80)));
    say("stat with an unknown flag",
        error_of(syscall(SYS_newfstatat, AT_FDCWD, "plain", &s, 0x40000000)));
    int fd = open("plain", O_PATH);
    say("a path is not read", fd >= 0 && read(fd, &c, 1) < 0 && errno == EBADF);
    say("but looked at", error_of(fstat(fd, &s)));
    close(fd);
    close(ends[0]), close(ends[1]);
}

static void pieces_are_one_transfer(void)
{
    int ends[2];
    char first[3], second[4];
    struct iovec out[] = {{"abc", 3}, {NULL, 0}, {"de", 2}}, in[] = {{first, 3}, {second, 4}};
    if (pipe(ends))
        exit(9);
    say("written from pieces", writev(ends[1], out, 3));
    say("read into pieces", readv(ends[0], in, 2));
    printf("%.3s %.2s\n", first, second);
    say("written", write(ends[1], "fgh", 3));
    say("nobody waits for the second piece", readv(ends[0], in, 2));
    close(ends[0]), close(ends[1]);
}

static void the_longest_file_loses_a_byte(void)
{
    int fd = open("long", O_CREAT | O_RDWR, 0644);
    say("written", write(fd, "a", 1));
    say("as long as a file may be", error_of(ftruncate(fd, 1 << 30)));
    say("a byte less", error_of(ftruncate(fd, (1 << 30) - 1)));
    say("a page less", error_of(ftruncate(fd, (1 << 30) - 4096)));
    say("its last byte", lseek(fd, 0, SEEK_END) == (1 << 30) - 4096);
    close(fd);
    unlink("long");
}

int main(void)
{
    char folder[] = "/tmp/files-XXXXXX";
    umask(022);
    if (!mkdtemp(folder) || chdir(folder))
        return 9;
    names_are_kept();
    folders_replace_empty_folders();
    slashes_mean_folders();
    modes_are_masked();
    nobody_runs_a_folder();
    descriptors_have_a_limit();
    flags_count();
    pieces_are_one_transfer();
    the_longest_file_loses_a_byte();
    return 0;
}
