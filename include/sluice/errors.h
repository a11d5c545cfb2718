/**
 * @file errors.h
 * What the library's errors mean.
 *
 * Calls return 0 or more on success and a negative errno on failure. A code has one meaning in the
 * whole library; the documentation of a call adds the details. Errors of system calls, such as
 * socket(2) and read(2), are passed on unchanged and keep the meaning that they have there.
 *
 * | code | meaning | what to do |
 * |---|---|---|
 * | -EAGAIN | Not now: more bytes, or room, are needed first. Nothing was done. | retry later |
 * | -EBUSY | Not now: an operation or an outer call has to end first. | end it first |
 * | -EALREADY | The same request is already in progress. | nothing |
 * | -EINVAL | An argument is invalid or out of range. | correct the program |
 * | -ECHILD | The loop belongs to the parent process. | make another loop |
 * | -ENOMEM | The system has no memory, or no more may be locked. | release memory, or give up |
 * | -ENOBUFS | The pool has no block, view or slab to spare. | release slices |
 * | -EMSGSIZE | Larger than a limit, or than the memory that the caller passed. | refuse it |
 * | -EFBIG | The same for a body; the head is valid and known. | refuse it |
 * | -ENAMETOOLONG | The same for a start line, target or URL. | refuse it |
 * | -EOVERFLOW | A number does not fit its type. | refuse it |
 * | -EXDEV | The bytes span several blocks, and there is no scratch memory. | pass scratch memory |
 * | -EPROTO | The bytes violate the format. | close the connection |
 * | -EPROTONOSUPPORT | The protocol version is not supported. | refuse it |
 * | -EOPNOTSUPP | Valid, but the library or the kernel does not support it. | refuse it |
 * | -EKEYREJECTED | A certificate or key is missing or not the right one. | refuse it |
 * | -EKEYEXPIRED | A key has been used as often as it may. | close |
 * | -EILSEQ | Text is not UTF-8. | close the connection |
 * | -EACCES | A permission or a key is missing. | obtain it |
 * | -EPERM | The system denies permission. | obtain it |
 * | -ENOSYS | The kernel lacks the system call. | use an alternative |
 * | -ENOENT | The requested item does not exist. | continue without it |
 * | -ENOMSG | The next item is of another kind. | read it with another call |
 * | -EEXIST | It already exists. | use the existing one |
 * | -ENODATA | The stream has ended. | close |
 * | -ECONNRESET | The peer closed in the middle of a message, or reset the connection. | close |
 * | -ECONNABORTED | The kernel gave up on the peer. | close |
 * | -ETIMEDOUT | A time limit has passed. No bytes are lost. | wait again, or close |
 * | -EPIPE | This side is closed, finished or failed. Nothing was done. | nothing can be sent |
 * | -ECANCELED | This side cancelled the operation. | nothing |
 * | -EINTR | sluice_loop_stop() was called. No bytes are lost. | leave, or call again |
 * | -ESTALE | A position in the stream has expired: a mark, a window. | start again |
 * | -EBADF, -ENOTSOCK, -EISDIR, -ESPIPE | Not a descriptor of the kind needed. | pass another |
 * | -EMFILE, -ENFILE | No file descriptors are left. | close some, or raise the limit |
 * | -EIO | The disk or the kernel failed. | close |
 * | -ENOSPC | The disk is full. | wait, or give up |
 * | -EADDRINUSE, -EADDRNOTAVAIL, -EAFNOSUPPORT | The address cannot be used here. | use another |
 * | -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH | The server cannot be reached. | retry later |
 *
 * Where the documentation of a framer says "for good", its error is final: every further call
 * returns the same code.
 */
#ifndef SLUICE_ERRORS_H
#define SLUICE_ERRORS_H

#include <errno.h>

#endif
