#include "framers/codec/sps.h"

#include "framers/codec/rbsp.h"

enum { EXTENDED_SAR = 255 };

void sps_skip_video(struct rbsp *r) {
    if (rbsp_bit(r) && rbsp_u(r, 8) == EXTENDED_SAR)
        rbsp_u(r, 32);
    if (rbsp_bit(r))
        rbsp_bit(r);
    if (rbsp_bit(r)) {
        rbsp_u(r, 4);
        if (rbsp_bit(r))
            rbsp_u(r, 24);
    }
    if (rbsp_bit(r)) {
        rbsp_ue(r);
        rbsp_ue(r);
    }
}
