#include <sluice/version.h>

const char *sluice_version(void) {
    return SLUICE_VERSION;
}
