/* crc32c.h - disk/crc32c.h, for user/sites/frame.c where a guest test includes that. */
#include "../../../../disk/crc32c.h"
