/* indexes.h - rows of an index that the store manager keeps (indexes.c). */
#ifndef INDEXES_H
#define INDEXES_H

void indexes(void);

#endif
