/* A wall clock that is wrong by WRONG_BY_S seconds, or by those in the file WRONG_BY_FILE, for a process that loads this first.
   Its other clocks are right. Redis reads the clock many times for each command, so that costs no system call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t always;
static const volatile int64_t *wrong_by = &always;
static int (*right_gettime)(clockid_t, struct timespec *);
static int (*right_timeofday)(struct timeval *, void *);

__attribute__((constructor)) static void begin(void) {
	const char *by = getenv("WRONG_BY_S"), *name = getenv("WRONG_BY_FILE");
	int file = name ? open(name, O_RDONLY) : -1;
	right_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	right_timeofday = dlsym(RTLD_NEXT, "gettimeofday");
	always = by ? atol(by) : 0;
	if (file >= 0) {
		void *seconds = mmap(NULL, sizeof *wrong_by, PROT_READ, MAP_SHARED, file, 0);
		if (seconds != MAP_FAILED)
			wrong_by = seconds;
		close(file);
	}
}

int clock_gettime(clockid_t clock, struct timespec *now) {
	int failed;
	if (!right_gettime)
		begin();
	failed = right_gettime(clock, now);
	if (!failed && clock == CLOCK_REALTIME)
		now->tv_sec += *wrong_by;
	return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
	int failed;
	if (!right_timeofday)
		begin();
	failed = right_timeofday(now, zone);
	if (!failed)
		now->tv_sec += *wrong_by;
	return failed;
}
