/* layers.h - one B+-tree on nested heaps, and with its storage management written into it. */
#ifndef LAYERS_H
#define LAYERS_H

/* Builds that tree (layered, integrated) in volatile memory and in a container of its name, and
 * says what that took. */
void layers_build(const char *name);
/* The query files of the B+-tree, the first of a machine that was just booted: the one of that
 * number, with what it cost and the sum over all that came. */
void layers_run(const char *name, unsigned number);

#endif
