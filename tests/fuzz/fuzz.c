/*
 * fuzz.c - libFuzzer's entry: bytes laid over a good image or log, checksums mended (hostile.h).
 *
 * Built twice, with FUZZ_PART as HOSTILE_IMAGE and HOSTILE_LOG. With FUZZ_CORPUS it is a program
 * of its own that writes the good bytes of several images, to begin with: corpus FOLDER IMAGE|LOG.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/disk/hostile.h"

#ifdef FUZZ_CORPUS

int main(int argc, char **argv)
{
    static uint8_t bytes[HOSTILE_BYTES_MAX];
    static struct hostile hostile;
    if (argc != 3)
        return 2;
    enum hostile_part part = strcmp(argv[2], "log") ? HOSTILE_IMAGE : HOSTILE_LOG;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        char path[512];
        hostile_open(&hostile, seed);
        size_t count = hostile_take(&hostile, part, bytes);
        snprintf(path, sizeof path, "%s/seed-%u", argv[1], (unsigned)seed);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(bytes, 1, count, file) != count || fclose(file))
            return 1;
        hostile_close(&hostile);
    }
    return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct hostile hostile;
    if (!hostile.device.image)
        hostile_open(&hostile, 1);
    if (count <= HOSTILE_BYTES_MAX)
        hostile_try(&hostile, FUZZ_PART, bytes, count);
    return 0;
}

#endif
