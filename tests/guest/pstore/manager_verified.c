/*
 * manager_verified.c - /bin/verified: a read-only container whose pages are checked as they come.
 *
 * Aim     pages that are what the manifest says are served; each other one, wherever its bit has
 *         turned, is EIO for who touches it, is told by number, and harms no other page; also when
 *         it turned after it had been read once and left memory. A page that is mended is right
 *         again. A manifest that is damaged, cut off or of another file serves nothing. Killed
 *         clients and a killed manager cost nothing.
 * Method  bits of the file are turned one after the other, and children touch the page.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "manager.h"
#include "press.h"
#include "process.h"
#include "system.h"
#include "tap.h"
#include "user/managers/verified.h"
#include "user/start.h"

enum { PAGES = 120, WORDS = KD_PAGE_BYTES / 8, LAST_BYTES = 24, KILLS = 6 };
static const char path[] = "/tmp/data", sums[] = "/tmp/data.sums", bad_sums[] = "/tmp/bad.sums";
static int manager;

static uint64_t value(uint64_t page) { return page * 0x9e3779b97f4a7c15u + 1; }

static int file_make(void)
{
    uint64_t page[WORDS];
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600), bad = fd < 0;
    for (uint64_t i = 0; i < PAGES && !bad; i++) {
        for (int w = 0; w < WORDS; w++) page[w] = value(i);
        size_t bytes = i < PAGES - 1 ? sizeof page : LAST_BYTES;
        bad = write(fd, page, bytes) != (ssize_t)bytes;
    }
    close(fd);
    return !bad;
}

/* Turns a bit of a file. */
static int turn(const char *name, long at)
{
    unsigned char byte;
    int fd = open(name, O_RDWR);
    int good = pread(fd, &byte, 1, at) == 1;
    byte ^= 1 << at % 8;
    good &= pwrite(fd, &byte, 1, at) == 1;
    close(fd);
    return good;
}

static int copy(const char *name, const char *as)
{
    static char bytes[2 * KD_PAGE_BYTES];
    int from = open(name, O_RDONLY), to = open(as, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ssize_t n = read(from, bytes, sizeof bytes);
    int good = n > 0 && write(to, bytes, (size_t)n) == n;
    close(from);
    close(to);
    return good;
}

static int run(const char *const *argv)
{
    int status = -1, pid = (int)start_program("/bin/verified", argv, 0, 1);
    kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
    return status;
}

static const volatile uint64_t *words;
static int serve(const char *manifest)
{
    const char *argv[] = {"verified", path, manifest, NULL};
    manager = (int)start_program("/bin/verified", argv, 0, 1);
    words = NULL;
    for (int i = 0; i < 30000 && !words; i++) {
        words = km_open("verified", "verified", KM_READ);
        if (!words) pause_ms(1);
    }
    return words != NULL;
}
static void serve_end(void)
{
    kd_call3(KD_PROCESS_KILL, manager, 9, 0);
    kd_call3(KD_PROCESS_WAIT, manager, 0, 0);
}

static struct verified_counts counts(uint64_t from)
{
    struct verified_counts c = {.first_rotten = from};
    if (km_call("verified", "verified", &c, sizeof c)) c.pages = 0;
    return c;
}

/* A child: the page is right, 17; wrong, 18; else it dies at its touch. */
static int touch_one(uint64_t page)
{
    words = km_open("verified", "verified", KM_READ);
    if (!words) return 19;
    int words_there = page < PAGES - 1 ? WORDS : LAST_BYTES / 8;
    for (int w = 0; w < WORDS; w++)
        if (words[page * WORDS + (uint64_t)w] != (w < words_there ? value(page) : 0)) return 18;
    return 17;
}

static int touch(const char *self, unsigned page)
{
    char digits[12];
    snprintf(digits, sizeof digits, "%u", page);
    return child_run(self, "touch", digits);
}

/* All pages leave memory: those of another manager fill it, until none of these is left. */
static int forget_all(void)
{
    int good = 1;
    for (int i = 0; i < 9 && good && system_info().resident_pages; i++) good = press_memory(6000);
    return good && system_info().resident_pages == 0;
}

static void all_right(const char *self)
{
    int bad = 0;
    for (unsigned page = 0; page < PAGES; page++) bad += words[page * WORDS] != value(page);
    struct verified_counts c = counts(0);
    tap_ok(!bad && c.pages == PAGES && c.checked >= PAGES && c.rotten == 0 &&
               c.first_rotten == PAGES, "all pages are what the manifest says");
    is(touch(self, PAGES - 1), 17, "behind the file's end are zeros");
    tap_ok(!km_open("verified", "verified", KM_READ | KM_WRITE), "nobody may write");
}

static void rot(const char *self)
{
    const long at[] = {0, 7 * 4096 + 4095, 64 * 4096 + 2048, (PAGES - 1) * 4096 + LAST_BYTES - 1};
    enum { ROTTEN = sizeof at / sizeof *at };
    int wrong = 0, ended = 0;
    for (int i = 0; i < ROTTEN; i++) wrong += !turn(path, at[i]);
    tap_ok(touch(self, 7) == 17 && forget_all(),
           "a page that is in memory stays right; it goes");
    for (int i = 0; i < ROTTEN; i++) {
        int status = touch(self, (unsigned)(at[i] / 4096));
        ended += status != 17 && status != 18 && status != 19;
    }
    tap_ok(!wrong && ended == ROTTEN, "who touches a rotten page is ended (%d)", ended);
    for (unsigned page = 0; page < PAGES; page++) {
        int is_rotten = 0;
        for (int i = 0; i < ROTTEN; i++) is_rotten |= page == at[i] / 4096;
        if (!is_rotten) wrong += words[page * WORDS] != value(page);
    }
    tap_ok(!wrong, "all others are right, those beside them, too");
    uint64_t from = 0;
    for (int i = 0; i < ROTTEN; i++) {
        struct verified_counts c = counts(from);
        wrong += c.rotten != ROTTEN || c.first_rotten != (uint64_t)at[i] / 4096;
        from = c.first_rotten + 1;
    }
    tap_ok(!wrong && counts(from).first_rotten == PAGES, "which they are is told");
    wrong += !turn(path, at[1]);
    tap_ok(touch(self, 7) == 17 && counts(0).rotten == ROTTEN - 1 && !wrong,
           "a page that was mended is right again");
    for (int i = 0; i < ROTTEN; i++) wrong += i != 1 && !turn(path, at[i]);
}

static void manifests(void)
{
    const char *serve_bad[] = {"verified", path, bad_sums, NULL};
    int refused = 0, wrong = 0;
    serve_end();
    for (long at = 0; at < 24 + PAGES * 4; at += 37) { /* magic, size, sum, sums */
        wrong += !copy(sums, bad_sums) || !turn(bad_sums, at);
        refused += run(serve_bad) != 0;
    }
    is(refused, (24 + PAGES * 4 + 36) / 37, "a manifest with a turned bit serves nothing");
    int fd = open(bad_sums, O_WRONLY);
    wrong += ftruncate(fd, 200) != 0;
    close(fd);
    tap_ok(run(serve_bad) != 0 && !wrong, "nor one that was cut off");
    fd = open(path, O_WRONLY | O_APPEND);
    wrong += write(fd, serve_bad, KD_PAGE_BYTES / 512) < 0 || ftruncate(fd, PAGES * 4096 + 1);
    close(fd);
    const char *serve_long[] = {"verified", path, sums, NULL};
    tap_ok(run(serve_long) != 0 && !wrong, "nor that of a file of another length");
}

static void deaths(const char *self)
{
    int bad = 0;
    for (int i = 0; i < KILLS; i++) {
        int pid = child_start(self, "ever", "0");
        bad += !child_has_begun(pid);
        pause_ms(i);
        kd_call3(KD_PROCESS_KILL, pid, 9, 0);
        int status = child_wait(pid);
        bad += status == 18 || status == 19;
        bad += touch(self, (unsigned)i * 11) != 17;
    }
    is(bad, 0, "clients are killed, and the manager serves on");
    int pid = child_start(self, "ever", "0");
    bool begun = child_has_begun(pid);
    serve_end();
    int status = child_wait(pid);
    tap_ok(begun && status != 18, "a client of a dead manager loads nothing wrong (%d)", status);
}

static int touch_ever(void)
{
    for (uint64_t page = 0;; page = (page + 7) % PAGES) {
        int status = touch_one(page);
        if (status != 17) return status;
        child_begun();
    }
}

int main(int argc, char **argv)
{
    if (argc > 2) return argv[1][0] == 'e' ? touch_ever() : touch_one(strtoul(argv[2], NULL, 10));
    const char *make[] = {"verified", "make", path, sums, NULL};
    tap_plan(17);
    if (!tap_ok(file_make() && run(make) == 0, "a file of %d pages, and its manifest", PAGES))
        return tap_end();
    tap_ok(serve(sums), "it is served");
    all_right(argv[0]);
    rot(argv[0]);
    deaths(argv[0]);
    tap_ok(serve(NULL) && touch(argv[0], 3) == 17 && counts(0).checked == 0,
           "without a manifest nothing is checked");
    manifests();
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
