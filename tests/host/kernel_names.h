/*
 * kernel_names.h - for host programs that include files of the kernel: its functions that libc has,
 * too, get names of their own. Included once more behind those files, it makes the names libc's
 * again.
 */
#ifndef KERNEL_NAMES
#define KERNEL_NAMES
#define memcpy kernel_memcpy
#define memmove kernel_memmove
#define memset kernel_memset
#define memcmp kernel_memcmp
#define strlen kernel_strlen
#define strnlen kernel_strnlen
#define strcmp kernel_strcmp
#define strncmp kernel_strncmp
#define strlcpy kernel_strlcpy
#else
#undef KERNEL_NAMES
#undef memcpy
#undef memmove
#undef memset
#undef memcmp
#undef strlen
#undef strnlen
#undef strcmp
#undef strncmp
#undef strlcpy
#undef assert
#endif
