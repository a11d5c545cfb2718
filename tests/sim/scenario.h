/* What is played in a simulated world: from a fresh world to one in which nothing is left. */
#ifndef SLUICE_TESTS_SIM_SCENARIO_H
#define SLUICE_TESTS_SIM_SCENARIO_H

/* The daemon's data plane: publishers, players, recordings. */
void scenario_relay(void);

/* The library's connections and files, used in any order. */
void scenario_library(void);

/* How often the library's loop sleeps: worlds of its own. */
void scenario_waiting(void);

#endif
