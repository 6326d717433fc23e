/*
 * errno_numbers.h - the error numbers that disk/ returns, negated.
 *
 * They equal those of Linux; disk/ is freestanding and cannot include <errno.h>. Safe to include
 * beside it.
 */
#ifndef KATYDID_DISK_ERRNO_NUMBERS_H
#define KATYDID_DISK_ERRNO_NUMBERS_H

#ifndef ENOENT
#define ENOENT 2
#endif
#ifndef EIO
#define EIO 5
#endif
#ifndef E2BIG
#define E2BIG 7
#endif
#ifndef EAGAIN
#define EAGAIN 11
#endif
#ifndef ENOMEM
#define ENOMEM 12
#endif
#ifndef EBUSY
#define EBUSY 16
#endif
#ifndef EEXIST
#define EEXIST 17
#endif
#ifndef EINVAL
#define EINVAL 22
#endif
#ifndef ENOSPC
#define ENOSPC 28
#endif
#ifndef EROFS
#define EROFS 30
#endif
#ifndef ENODATA
#define ENODATA 61
#endif
#ifndef EPROTONOSUPPORT
#define EPROTONOSUPPORT 93
#endif
#ifndef EOPNOTSUPP
#define EOPNOTSUPP 95
#endif
#ifndef ENOBUFS
#define ENOBUFS 105
#endif
#ifndef ESTALE
#define ESTALE 116
#endif
#ifndef EUCLEAN
#define EUCLEAN 117
#endif
#ifndef EMEDIUMTYPE
#define EMEDIUMTYPE 124
#endif

#endif
