#include "daemon/service.h"

#ifdef SLUICED_SYSTEMD

#include <stdio.h>
#include <systemd/sd-daemon.h>

#include "shared/clock.h"

void service_ready(void) {
    (void)sd_notify(0, "READY=1");
}

/* With the time, by which the manager knows this reload from another one. */
void service_reloading(void) {
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)clock_ns() / 1000);
}

void service_stopping(void) {
    (void)sd_notify(0, "STOPPING=1");
}

void service_main_pid(pid_t pid) {
    (void)sd_notifyf(0, "MAINPID=%ld", (long)pid);
}

void service_alive(void) {
    (void)sd_notify(0, "WATCHDOG=1");
}

uint64_t service_watchdog_us(void) {
    uint64_t interval;
    return sd_watchdog_enabled(0, &interval) > 0 ? interval : 0;
}

#else

void service_ready(void) {}

void service_reloading(void) {}

void service_stopping(void) {}

void service_main_pid(pid_t pid) {
    (void)pid;
}

void service_alive(void) {}

uint64_t service_watchdog_us(void) {
    return 0;
}

#endif
