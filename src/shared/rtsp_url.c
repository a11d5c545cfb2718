#include "shared/rtsp_url.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int rtsp_control_url(const char *base, sluice_http_text control, char ret_url[RTSP_URL + 1]) {
    static const char scheme[] = "rtsp://";
    char url[RTSP_URL + 1];
    int length;
    bool absolute = control.length > strlen(scheme) && strncasecmp(control.text, scheme, strlen(scheme)) == 0;
    bool slash = *base && base[strlen(base) - 1] == '/';
    if (absolute)
        length = snprintf(url, sizeof url, "%.*s", (int)control.length, control.text);
    else if (control.length == 0 || (control.length == 1 && *control.text == '*'))
        length = snprintf(url, sizeof url, "%s", base);
    else
        length = snprintf(url, sizeof url, "%s%s%.*s", base, slash || *control.text == '/' ? "" : "/",
                          (int)control.length, control.text);
    if (length < 0 || (size_t)length >= sizeof url)
        return -EMSGSIZE;
    memcpy(ret_url, url, (size_t)length + 1);
    return 0;
}
