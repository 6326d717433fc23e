#!/bin/bash
# Group tables: what is kept for a GiB of a container beside its pages, in Katydid; and for a GiB of a mapped file in
# the Linux that this runs on (VmPTE of /proc/self/status, with the file's pages in its cache).
set -eu
cd "$(dirname "$0")/../.."
scripts/run --icount --cpus 1 --memory 1400 --no-store --timeout 300 -c 'bench-txn tables'
python3 - <<'END'
import mmap, os, tempfile

def tables():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmPTE"))

def cost(together, step, small):
    """Page tables for a GiB of a file that is all zeros; small: in pages of 4 KiB, never of 2 MiB. KiB."""
    with tempfile.TemporaryFile(dir="build") as file:
        file.truncate(1 << 30)
        before = tables()
        with mmap.mmap(file.fileno(), 1 << 30, prot=mmap.PROT_READ) as memory:
            if small:
                memory.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(0, 1 << 18, step):
                for i in range(together):
                    memory[(page + i) * 4096]
            return tables() - before

release = os.uname().release.split("-")[0]
for name, together, step in (("dense: every page", 1, 1), ("sparse: one page in 256 KiB", 1, 64),
                             ("grouped: 16 pages in each MiB", 16, 256)):
    for small in (True, False):
        print(f"{name}, page tables of Linux {release}{', pages of 4 KiB' if small else ', as it likes'}"
              f"\tMiB a GiB\t{cost(together, step, small) / 1024:.4g}\t-")
END
