# What the linker turns to the simulated kernel: system calls, and allocations.
set(sim_calls getrlimit clock_gettime thread_time_now nanosleep getrusage getrandom close socket_end_has_come eventfd write fcntl lseek socket socketpair probe_socket_open setsockopt bind listen
    getsockname getpeername sockatmark recv recvmsg shutdown mmap munmap malloc calloc realloc reallocarray posix_memalign strdup strndup free io_thread_add io_thread_cancel io_thread_end log_write
    sluice_pool_free fstat faccessat record_root_open record_open record_list record_part_create recovery_new recovery_free
    recovery_add recovery_end recovery_tell)
list(TRANSFORM sim_calls PREPEND "LINKER:--wrap=")
