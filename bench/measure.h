/* Clocks, counts and order statistics of the benchmarks. */
#ifndef SY_BENCH_MEASURE_H
#define SY_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

uint64_t measure_now_ns(void);         /* CLOCK_MONOTONIC */
uint64_t measure_process_cpu_ns(void); /* of this process, all threads */
uint64_t measure_thread_cpu_ns(void);
uint64_t measure_wakeups(void);        /* of this process: how often a thread slept by itself */

/* The same of another process, all threads; 0 where it is gone. */
uint64_t measure_cpu_of(pid_t pid);
uint64_t measure_wakeups_of(pid_t pid);

/* Sorts the values and returns the one below which lies this part (0 to 1) of them. 0 of none. */
double measure_quantile(double *values, size_t count, double part);

#endif
