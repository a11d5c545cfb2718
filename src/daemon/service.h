/*
 * What the service manager (systemd) is told, where there is one that wants to know (NOTIFY_SOCKET): see sd_notify(3).
 * Without, or in a build without libsystemd, all of it does nothing.
 */
#ifndef SLUICED_SERVICE_H
#define SLUICED_SERVICE_H

#include <stdint.h>
#include <sys/types.h>

void service_ready(void);
void service_reloading(void); /* until service_ready() */
void service_stopping(void);

/* Another process is the service's from now on. */
void service_main_pid(pid_t pid);

/* The daemon does its work, and not only this thread. */
void service_alive(void);

/* How often the manager wants to hear that, microseconds; 0: it does not. */
uint64_t service_watchdog_us(void);

#endif
