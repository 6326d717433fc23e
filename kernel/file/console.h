/* console.h - the terminal on the first serial port, as ioctl sees it. Contract in console.c. */
#ifndef KERNEL_CONSOLE_H
#define KERNEL_CONSOLE_H

#include "file/file.h"

struct terminal_modes {            /* the kernel's struct termios of Linux */
    uint32_t input, output, control, local;
    uint8_t line, characters[19];
};
_Static_assert(sizeof(struct terminal_modes) == 36, "Linux's size");

/* The functions that Ctrl-C needs; kernel/seams.c names them. Both run in an interrupt, with no
 * lock held. */
struct console_seam {
    bool (*foreground)(void);      /* is a program in the foreground? */
    void (*interrupt)(void);       /* ends those that are, or lets them handle it */
};
extern const struct console_seam console_seam;

void console_modes(struct terminal_modes *out);
void console_set_modes(const struct terminal_modes *m, bool flush);

#endif
