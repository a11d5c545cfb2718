/*
 * Notifications to the service manager (systemd) if it requests them (NOTIFY_SOCKET): see
 * sd_notify(3). Otherwise, and in a build without libsystemd, these do nothing.
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
