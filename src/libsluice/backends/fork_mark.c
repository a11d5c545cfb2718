#include "backends/fork_mark.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

int fork_mark_make(fork_mark *mark) {
    void *page = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -ENOMEM;
    *mark = (fork_mark){.page = page, .process = getpid()};
    if (madvise(page, page_size(), MADV_WIPEONFORK) < 0) {
        munmap(page, page_size());
        mark->page = NULL;
        return 0;
    }
    *mark->page = 1;
    return 0;
}

void fork_mark_discard(fork_mark *mark) {
    if (mark->page)
        munmap((void *)mark->page, page_size());
    *mark = (fork_mark){0};
}

bool fork_mark_is_child(const fork_mark *mark) {
    return mark->page ? *mark->page == 0 : mark->process && getpid() != mark->process;
}
