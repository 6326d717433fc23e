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
#define EIO 5
#define E2BIG 7
#define EAGAIN 11
#define ENOMEM 12
#define EBUSY 16
#define EEXIST 17
#define EINVAL 22
#define ENOSPC 28
#define EROFS 30
#define ENOTEMPTY 39
#define ENODATA 61
#define EPROTONOSUPPORT 93
#define EOPNOTSUPP 95
#define ENOBUFS 105
#define ESTALE 116
#define EUCLEAN 117
#define EMEDIUMTYPE 124
#define ECANCELED 125
#endif

#endif
