/* files.h - what is in the boot module and on the import disk becomes files. */
#ifndef USER_INIT_FILES_H
#define USER_INIT_FILES_H

void files_make(void);          /* the kernel's log tells what is wrong with either */

#endif
