/*
 * kernel_block.c - the system calls for disks.
 *
 * Aim     any length at any address arrives whole and nothing beside it changes; pages go straight
 *         into an object and back with the right checksums, and wait where it is full; every wrong
 *         argument is an error; two overlapping writes are never on their way together; one holder
 *         at a time.
 * Method  the disk for exports is ours until the test ends; what was written is read back and
 *         compared. At the end its start is zeros again: an empty archive.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "katydid/call.h"
#include "system.h"
#include "tap.h"

enum { PAGES = 300, MIB = 1 << 20 };

static int disk;
static struct kd_block_info info;

static long transfer(int call, uint64_t offset_bytes, const void *p, uint64_t bytes)
{
    return kd_call4(call, disk, (long)offset_bytes, (long)p, (long)bytes);
}

static uint32_t crc32c(const uint8_t *p, size_t bytes)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < bytes; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void fill(uint8_t *p, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        p[i] = (uint8_t)(seed >> 33);
    }
}

static uint8_t source[11 * MIB + 2 * 4096], back[sizeof source];

/* Longer than one part of a transfer, from addresses with all kinds of page ends in sectors. */
static int long_transfers_arrive(void)
{
    static const size_t skews[] = {0, 1, 16, 513, 4000, 4095};
    size_t bytes = 11 * MIB - 7 * 512;
    int good = 1;

    for (size_t i = 0; i < sizeof skews / sizeof *skews; i++) {
        fill(source, sizeof source, i);
        memset(back, 0, sizeof back);
        good &= transfer(KD_BLOCK_WRITE, 512 * (3 + i), source + skews[i], bytes) == 0;
        good &= transfer(KD_BLOCK_READ, 512 * (3 + i), back + skews[5 - i], bytes) == 0;
        good &= memcmp(source + skews[i], back + skews[5 - i], bytes) == 0;
        good &= back[skews[5 - i] + bytes] == 0;
    }
    return good;
}

static int short_transfers_arrive(void)
{
    int good = transfer(KD_BLOCK_WRITE, 512, source, 32768) == 0;

    for (size_t bytes = 512; bytes <= 16384; bytes += 512) {
        for (size_t at = 0; at < 4096; at += 1111) {
            memset(back, 1, bytes + 8192);
            good &= transfer(KD_BLOCK_READ, 1024, back + 8 + at, bytes) == 0;
            good &= memcmp(back + 8 + at, source + 512, bytes) == 0;
            good &= back[7 + at] == 1 && back[8 + at + bytes] == 1;
        }
    }
    return good;
}

static int wrong_ranges_are_refused(void)
{
    return transfer(KD_BLOCK_READ, 0, back, 100) == -EINVAL &&
           transfer(KD_BLOCK_READ, 1, back, 512) == -EINVAL &&
           transfer(KD_BLOCK_READ, info.bytes, back, 512) == -EINVAL &&
           transfer(KD_BLOCK_READ, info.bytes - 512, back, 1024) == -EINVAL &&
           transfer(KD_BLOCK_READ, -512ull, back, 1024) == -EINVAL &&
           transfer(KD_BLOCK_READ, info.bytes - 512, back, 512) == 0 &&
           transfer(KD_BLOCK_READ, 0, back, 0) == 0;
}

static int wrong_buffers_are_refused(void)
{
    uint8_t *hole = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const void *code = (const void *)((uintptr_t)wrong_ranges_are_refused & ~4095ul);

    munmap(hole + 32768, 4096);
    return transfer(KD_BLOCK_READ, 0, (void *)KD_STORE_BASE, 512) == -EINVAL &&
           transfer(KD_BLOCK_READ, 0, (void *)(KD_STORE_BASE - 256), 512) == -EINVAL &&
           transfer(KD_BLOCK_READ, 0, (void *)0xffff800000000000, 512) == -EFAULT &&
           transfer(KD_BLOCK_READ, 0, (void *)0x7ffffffff000, 512) == -EFAULT &&
           transfer(KD_BLOCK_READ, 0, (void *)16, 512) == -EFAULT &&
           transfer(KD_BLOCK_READ, 0, hole, 65536) == -EFAULT &&
           transfer(KD_BLOCK_READ, 0, hole, 32768) == 0 &&
           transfer(KD_BLOCK_READ, 0, code, 512) == -EFAULT &&
           transfer(KD_BLOCK_WRITE, 0, code, 512) == 0;
}

static int disk_has_one_holder(void)
{
    struct kd_block_info other;
    int good = kd_call3(KD_BLOCK_OPEN, (long)"export", (long)&other, 0) == -EBUSY;

    good &= kd_call3(KD_HANDLE_CLOSE, disk, 0, 0) == 0;
    good &= transfer(KD_BLOCK_READ, 0, back, 512) == -EBADF;
    good &= kd_call3(KD_BLOCK_FLUSH, disk, 0, 0) == -EBADF;
    disk = (int)kd_call3(KD_BLOCK_OPEN, (long)"export", (long)&info, 0);
    return good && disk >= 0 && kd_call3(KD_BLOCK_FLUSH, disk, 0, 0) == 0;
}

/* ---- two writers of the same sectors ---- */

static int written, refused, strange;

static void *write_often(void *unused)
{
    for (int i = 0; i < 300; i++) {
        long result = transfer(KD_BLOCK_WRITE, 4096, source, 65536);
        int *count = result == 0 ? &written : result == -EBUSY ? &refused : &strange;

        __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

static int overlapping_writes_are_refused(void)
{
    pthread_t a, b;

    for (int i = 0; i < 20 && !(written && refused); i++) { /* they may miss each other */
        pthread_create(&a, NULL, write_often, NULL);
        pthread_create(&b, NULL, write_often, NULL);
        pthread_join(a, NULL);
        pthread_join(b, NULL);
    }
    printf("# %d written, %d refused\n", written, refused);
    return written > 0 && refused > 0 && strange == 0;
}

/* ---- pages of an object ---- */

static struct kd_page_io io[PAGES];
static int object;

/* Every third page lies apart, so that some requests are long and some are not. */
static uint64_t home(unsigned page) { return (8ull << 20) + (page + page / 3) * 4096ull; }

static long pages_io(int call, unsigned first, unsigned count, uint64_t shift)
{
    for (unsigned i = 0; i < count; i++)
        io[i] = (struct kd_page_io){.object = object, .page = first + i, .status = 77,
                                    .offset_bytes = home(first + i) + shift};
    return kd_call3(call, disk, (long)io, count);
}

static int make_object(void)
{
    int port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = port, .commit_port = port, .pages = PAGES};

    object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    return port >= 0 && object >= 0;
}

static int pages_come_from_the_disk(void)
{
    int good = 1;

    for (unsigned page = 0; page < PAGES; page++)
        good &= transfer(KD_BLOCK_WRITE, home(page), source + page * 4096, 4096) == 0;
    for (unsigned first = 0; first < PAGES; first += 150) {
        good &= pages_io(KD_BLOCK_READ_PAGES, first, 150, 0) == 0;
        for (unsigned i = 0; i < 150; i++)
            good &= io[i].status == 0 && io[i].crc == crc32c(source + (first + i) * 4096, 4096);
        struct kd_supply s = {.object = object, .source = KD_SUPPLY_READ, .page = first,
                              .count = 150, .rights = KD_READ | KD_WRITE};
        good &= kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == 0;
    }
    return good;
}

static int pages_go_to_the_disk(void)
{
    const uint64_t shift = 64 * MIB;
    int good = 1;

    for (unsigned first = 0; first < PAGES; first += 5) { /* few enough for the stack, and not */
        unsigned count = first < 100 ? 5 : 200;

        good &= pages_io(KD_BLOCK_WRITE_PAGES, first, count, shift) == 0;
        for (unsigned i = 0; i < count; i++)
            good &= io[i].status == 0 && io[i].crc == crc32c(source + (first + i) * 4096, 4096);
        if (count == 200)
            break;
    }
    for (unsigned page = 0; page < PAGES; page++) {
        good &= transfer(KD_BLOCK_READ, home(page) + shift, back, 4096) == 0;
        good &= memcmp(back, source + page * 4096, 4096) == 0;
    }
    return good;
}

static int each_page_has_its_own_error(void)
{
    int good = pages_io(KD_BLOCK_WRITE_PAGES, 0, 6, 0) == 0;

    for (unsigned i = 0; i < 6; i++)
        io[i] = (struct kd_page_io){.object = object, .page = i, .offset_bytes = home(i)};
    io[1].object = 200;
    io[2].offset_bytes = info.bytes;
    io[3].offset_bytes++;
    io[4].page = PAGES;
    good &= kd_call3(KD_BLOCK_WRITE_PAGES, disk, (long)io, 6) == -EBADF;
    good &= io[0].status == 0 && io[1].status == -EBADF && io[2].status == -EINVAL;
    good &= io[3].status == -EINVAL && io[4].status < 0 && io[5].status == 0;
    good &= pages_io(KD_BLOCK_READ_PAGES, 0, 2, 0) < 0 && io[0].status < 0; /* resident already */
    good &= kd_call3(KD_BLOCK_WRITE_PAGES, disk, (long)io, 257) == -EINVAL;
    good &= kd_call3(KD_BLOCK_WRITE_PAGES, disk, 8, 3) == -EFAULT;
    return good && kd_call3(KD_BLOCK_WRITE_PAGES, disk, 8, 30) == -EFAULT;
}

/* ---- an object that has all the pages that it may have ---- */

static void *read_one_more(void *status)
{
    struct kd_page_io one = {.object = object, .page = KD_MEMORY_LEAST, .offset_bytes = home(0)};
    (void)kd_call3(KD_BLOCK_READ_PAGES, disk, (long)&one, 1);
    *(long *)status = one.status;
    return NULL;
}

/* Whoever reads one more while all the others are on their way waits for those. */
static int a_full_object_waits(void)
{
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_READ, .count = KD_MEMORY_LEAST};
    long status = 1;
    pthread_t t;

    int good = kd_call4(KD_OBJECT_ADVISE, object, 0, KD_MEMORY_LEAST, KD_ADVISE_MEMORY) == 0;
    good &= pages_io(KD_BLOCK_READ_PAGES, 0, KD_MEMORY_LEAST, 0) == 0;
    good &= pthread_create(&t, NULL, read_one_more, &status) == 0;
    for (int i = 0; i < 20; i++)
        pause_ms(10);
    good &= kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == 0;
    pthread_join(t, NULL);
    printf("# the one more: %ld\n", status);
    return good && status == 0;
}

int main(void)
{
    tap_plan(13);
    tap_ok(kd_call3(KD_BLOCK_OPEN, (long)"nosuch", (long)&info, 0) == -ENODEV &&
           kd_call3(KD_BLOCK_OPEN, 1, (long)&info, 0) == -EFAULT &&
           kd_call3(KD_BLOCK_OPEN, (long)"export", 8, 0) == -EFAULT, "wrong names are refused");
    disk = (int)kd_call3(KD_BLOCK_OPEN, (long)"export", (long)&info, 0);
    tap_ok(disk >= 0 && info.bytes >= 200 * MIB && info.sector_bytes == 512, "the disk opens");
    tap_ok(long_transfers_arrive(), "long transfers arrive");
    tap_ok(short_transfers_arrive(), "short transfers arrive");
    tap_ok(wrong_ranges_are_refused(), "wrong ranges are refused");
    tap_ok(wrong_buffers_are_refused(), "wrong buffers are refused");
    tap_ok(disk_has_one_holder(), "a disk has one holder");
    tap_ok(overlapping_writes_are_refused(), "overlapping writes are refused");
    tap_ok(make_object() && pages_come_from_the_disk(), "pages come from the disk");
    tap_ok(pages_go_to_the_disk(), "pages go to the disk");
    tap_ok(each_page_has_its_own_error(), "each page has its own error");
    tap_ok(make_object() && a_full_object_waits(), "a full object waits for what is on its way");
    memset(source, 0, sizeof source);
    tap_ok(transfer(KD_BLOCK_WRITE, 0, source, MIB) == 0 &&
           kd_call3(KD_HANDLE_CLOSE, disk, 0, 0) == 0, "the disk is an empty archive again");
    return tap_end();
}
