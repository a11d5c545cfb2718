#include "lines/settings.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/process.h"

struct settings settings_read(int argc, char **argv, uint64_t most_publishers, const char *usage) {
    static const struct option known[] = {
        {"publishers", required_argument, NULL, 'p'},
        {"ms", required_argument, NULL, 'm'},
        {"no-cache", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct settings settings = {.publishers = 100, .milliseconds = 2000, .cache = true};
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'p')
            settings.publishers = parse_number("--publishers", optarg, 1, most_publishers);
        else if (option == 'm')
            settings.milliseconds = parse_number("--ms", optarg, 0, 1000000);
        else if (option == 'n')
            settings.cache = false;
        else {
            fputs(usage, option == 'h' ? stdout : stderr);
            exit(option == 'h' ? 0 : 2);
        }
    }
    return settings;
}
