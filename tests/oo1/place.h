/* place.h - places in volatile memory, and names, for files that are read or mapped. */
#ifndef OO1_PLACE_H
#define OO1_PLACE_H

#include <stddef.h>
#include <stdint.h>

enum { PLACES = 8 };                    /* files that one program opens */
struct storage {
    char *base;
    uint64_t bytes_max, at;
    int descriptor, is_copy;
};

/* A place for the next file: its address; its bytes are not mapped yet. NULL: there are PLACES. */
struct storage *place_next(uint64_t bytes_max);
/* Opens the file of that name in the folder that OO1_DIR names, or /tmp. */
int place_file(const char *name);
int place_files_delete(void);

#endif
