/* main.c - the kernel's table of contents: its parts, in the order in which they need each
 * other. */
#include "block/block.h"
#include "base/boot.h"
#include "file/file.h"
#include "memory/frame.h"
#include "linux/linux.h"
#include "message/message.h"
#include "process/process.h"
#include "look/look.h"
#include "store/store.h"
#include "stream/stream.h"

#include "arch.h"
#include "disk/crc32c.h"

static uint64_t cycles(void *context)
{
    (void)context;
    return arch_cycles();
}

/* Checksums are computed by the fastest way on this machine, or by the one that crc=NAME says. */
static void checksum_init(void)
{
    static const struct disk_clock clock = {NULL, cycles};
    const char *choice = kernel_option("crc");
    crc32c_choose(&clock);
    if (choice && !crc32c_fix(choice))
        printk("crc32c: this machine has no way called %s", choice);
    printk("crc32c: by %s (16 KiB: instruction %lu cycles, sums %lu)", crc32c_chosen(),
           crc32c_cost("instruction"), crc32c_cost("sums"));
}

_Noreturn void kmain(void)
{
    log_init();             /* what printk said so far comes out */
    printk("Katydid\n");
    boot_print();           /* memory and modules, as the boot loader has them */
    random_init();          /* the stack guard */
    frame_init();           /* page frames: all RAM that the boot left free */
    kmem_init();            /* kernel memory, made of frames */
    arch_init();            /* interrupts, clock */
    trace_init();           /* events */
    trace_calls_init();     /* the table of system calls */
    thread_init();          /* from here on this is a thread; CPUs can run others */
    object_init();          /* memory objects and their pages */
    view_init();            /* transactions */
    evict_init();           /* taking frames back */
    futex_init();
    checksum_init();        /* measures how best to compute checksums */
    virtio_blk_init();      /* finds the disks */
    virtio_serial_init();   /* and streams */
    /* Not before those: enabling a PCI device changes the memory map, and QEMU 7.2's TCG can
     * crash when another CPU reads a device register at that moment. */
    arch_start_cpus();      /* the others go idle and look for threads */
    file_tree_init();       /* folders, the boot loader's module, the first program */
    file_disk_init();       /* the import disk, as a file */
    console_init();         /* terminal input and output */
    thread_breathe();
    process_start_first();  /* /bin/init */
    thread_exit();
}
