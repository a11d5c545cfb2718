/*
 * What the service manager (systemd) is told, where there is one that wants to know
 * (NOTIFY_SOCKET): see sd_notify(3). Without, or in a build without libsystemd, all of it does
 * nothing.
 */
#ifndef SLUICED_SYSTEMD_H
#define SLUICED_SYSTEMD_H

#include <stdint.h>
#include <sys/types.h>

void systemd_ready(void);
void systemd_reloading(void); /* until systemd_ready() */
void systemd_stopping(void);

/* Another process is the service's from now on. */
void systemd_main_pid(pid_t pid);

/* The daemon does its work, and not only this thread. */
void systemd_alive(void);

/* How often the manager wants to hear that, microseconds; 0: it does not. */
uint64_t systemd_watchdog_us(void);

#endif
