#include "daemon/edge/edge_window.h"

uint32_t edge_window_us(const struct edge_window_counts *counts, uint32_t usual, uint32_t edge) {
    if (usual == 0 || counts->fetched == 0 || counts->fetched < counts->live - counts->fetched)
        return usual;
    return edge > usual ? edge : usual;
}
