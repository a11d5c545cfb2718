#include "tools/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t seen;

static void on_signal(int number) {
    seen = 1;
    signal(number, SIG_DFL);
}

void interrupt_watch(void) {
    const struct sigaction watch = {.sa_handler = on_signal};
    sigaction(SIGINT, &watch, NULL);
    sigaction(SIGTERM, &watch, NULL);
    signal(SIGPIPE, SIG_IGN);
}

bool interrupt_seen(void) {
    return seen;
}
