/* Control groups of both versions, in a directory of the test's own: what is read, and that the
 * least of all counts. */
#include "daemon/base/cgroup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char root[32];

static int set_up(void **state) {
    (void)state;
    strcpy(root, "/tmp/sluice-test-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r -- %s", root);
    return system(command);
}

static void write_file(const char *path, const char *text) {
    char command[600], name[512];
    snprintf(name, sizeof name, "%s%s", root, path);
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\"", name);
    assert_int_equal(system(command), 0);
    FILE *file = fopen(name, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect(uint64_t milli_cpus, uint64_t memory) {
    struct cgroup_limits limits;
    cgroup_read(root, &limits);
    assert_true(limits.milli_cpus == milli_cpus);
    assert_true(limits.memory == memory);
}

static void nothing_is_no_limit(void **state) {
    (void)state;
    expect(UINT64_MAX, UINT64_MAX);
    write_file("/proc/self/cgroup", "");
    expect(UINT64_MAX, UINT64_MAX);
    write_file("/proc/self/cgroup", "0::/a/b\n");
    expect(UINT64_MAX, UINT64_MAX);
    write_file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    write_file("/sys/fs/cgroup/a/b/memory.max", "max\n");
    write_file("/sys/fs/cgroup/a/b/memory.high", "max\n");
    expect(UINT64_MAX, UINT64_MAX);
    static const char *const broken[] = {"",      "x 100000\n", "-1 100000\n",
                                         "5 0\n", "5 x\n",      "99999999999999999999999 100000\n"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        write_file("/sys/fs/cgroup/a/b/cpu.max", broken[i]);
        write_file("/sys/fs/cgroup/a/b/memory.max", broken[i]);
        expect(UINT64_MAX, UINT64_MAX);
    }
}

static void the_least_on_the_way_up_counts(void **state) {
    (void)state;
    write_file("/proc/self/cgroup", "0::/a/b\n");
    write_file("/sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
    write_file("/sys/fs/cgroup/a/b/memory.max", "1000000\n");
    expect(2500, 1000000);
    write_file("/sys/fs/cgroup/a/b/memory.high", "900000\n");
    expect(2500, 900000);
    write_file("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    write_file("/sys/fs/cgroup/a/memory.max", "800000\n");
    expect(500, 800000);
    write_file("/sys/fs/cgroup/cpu.max", "10000\n");
    write_file("/sys/fs/cgroup/memory.max", "700000\n");
    expect(100, 700000);
    /* Another group's limits, and those of a name that begins alike. */
    write_file("/sys/fs/cgroup/ab/cpu.max", "1 100000\n");
    write_file("/sys/fs/cgroup/a/c/memory.max", "1\n");
    expect(100, 700000);
    /* A container sees its own group as the root, or one outside of what it sees. */
    write_file("/proc/self/cgroup", "0::/\n");
    expect(100, 700000);
    write_file("/proc/self/cgroup", "0::/../../x\n");
    expect(100, 700000);
}

static void version_1(void **state) {
    (void)state;
    write_file("/proc/self/cgroup", "12:cpuset:/c\n4:cpu,cpuacct:/a\n3:memory:/m/n\n1:name=systemd:/x\n0::/y\n");
    write_file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
    write_file("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    write_file("/sys/fs/cgroup/memory/m/n/memory.limit_in_bytes", "9223372036854771712\n");
    expect(UINT64_MAX, 9223372036854771712u);
    write_file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000\n");
    write_file("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "4096\n");
    expect(1500, 4096);
    write_file("/sys/fs/cgroup/cpuset/c/cpu.cfs_quota_us", "1\n");
    write_file("/sys/fs/cgroup/unified/y/memory.max", "4095\n");
    expect(1500, 4095);
    write_file("/proc/self/cgroup", "nonsense\n:\n::\n0\n");
    expect(UINT64_MAX, UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_no_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_least_on_the_way_up_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(version_1, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
