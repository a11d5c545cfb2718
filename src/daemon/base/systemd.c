#include "daemon/base/systemd.h"

#ifdef SLUICED_SYSTEMD

#include <stdio.h>
#include <systemd/sd-daemon.h>

#include "shared/clock.h"

void systemd_ready(void) {
    (void)sd_notify(0, "READY=1");
}

/* With the time, by which the manager knows this reload from another one. */
void systemd_reloading(void) {
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)clock_ns() / 1000);
}

void systemd_stopping(void) {
    (void)sd_notify(0, "STOPPING=1");
}

void systemd_main_pid(pid_t pid) {
    (void)sd_notifyf(0, "MAINPID=%ld", (long)pid);
}

void systemd_alive(void) {
    (void)sd_notify(0, "WATCHDOG=1");
}

uint64_t systemd_watchdog_us(void) {
    uint64_t interval;
    return sd_watchdog_enabled(0, &interval) > 0 ? interval : 0;
}

#else

void systemd_ready(void) {}

void systemd_reloading(void) {}

void systemd_stopping(void) {}

void systemd_main_pid(pid_t pid) {
    (void)pid;
}

void systemd_alive(void) {}

uint64_t systemd_watchdog_us(void) {
    return 0;
}

#endif
