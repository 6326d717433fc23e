/*
 * fire_read.c - under fire: managers whose pages nobody but they make.
 *
 * Aim     squares, verified, replacement: whoever dies at whichever step, stands still or lies, the
 *         next client reads the right words; also in memory that is short or ends.
 * Method  fire.h, with the programs as they are, over a file of words.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "fire.h"
#include "manager.h"
#include "process.h"
#include "user/managers/replacement/policy.h"
#include "user/managers/verified.h"
#include "user/start.h"

enum { FILE_PAGES = 64, READ_PAGES = 50, WORDS = KM_PAGE_BYTES / 8 };
static const char file[] = "/tmp/words", sums[] = "/tmp/words.sums";

static uint64_t square(uint64_t i) { return i * i; }
static uint64_t word(uint64_t i) { return i * 0x9e3779b97f4a7c15u + 1; }

static int file_make(void)
{
    uint64_t page[WORDS];
    int fd = open(file, O_CREAT | O_TRUNC | O_WRONLY, 0600), bad = fd < 0;
    for (uint64_t i = 0; i < FILE_PAGES && !bad; i++) {
        for (uint64_t w = 0; w < WORDS; w++) page[w] = word(i * WORDS + w);
        bad = write(fd, page, sizeof page) != (ssize_t)sizeof page;
    }
    return close(fd) || bad ? -EIO : 0;
}

static int sums_make(void)
{
    const char *argv[] = {"verified", "make", file, sums, NULL};
    int e = file_make();
    return e ? e : child_wait((int)start_program("/bin/verified", argv, 0, 1)) ? -EIO : 0;
}

int main(int argc, char **argv)
{
    static const struct fire managers[] = {
        {.program = "squares", .name = "squares", .argv = {"squares"}, .how = FIRE_READS,
         .pages = READ_PAGES, .initial = square},
        {.program = "verified", .name = "verified", .argv = {"verified", file, sums},
         .how = FIRE_READS, .pages = READ_PAGES, .initial = word, .prepare = sums_make,
         .message_bytes = sizeof(struct verified_counts)},
        {.program = "replacement", .name = "replacement",
         .argv = {"replacement", "arc", "20", file}, .how = FIRE_READS, .pages = READ_PAGES,
         .initial = word, .prepare = file_make,
         .message_bytes = sizeof(struct replacement_counts)},
    };
    return fire_main(managers, sizeof managers / sizeof *managers, argc, argv);
}
