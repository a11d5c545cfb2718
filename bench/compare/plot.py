"""Plots as SVG: a bar for each variant (the median, user and system apart, the range of the rounds), or a curve."""

from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, ROW, BAR = 820, 210, 150, 62, 30, 18
OURS, OURS_LIGHT, THEIRS, THEIRS_LIGHT = "#1f6f8b", "#7fb7c9", "#8a8a8a", "#c4c4c4"


def text(x, y, content, anchor="start", size=13, weight="normal", fill="#222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
            f'fill="{fill}">{escape(content)}</text>')


def rectangle(x, y, width, height, fill):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height}" fill="{fill}"/>'


def line(x1, y1, x2, y2, stroke="#222"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"/>'


def bars(title, unit, rows):
    """An SVG document. Rows: name, whether it is ours, the parts of its median, its least, its most."""
    most = max(max(row[4], sum(row[2])) for row in rows) or 1
    scale = (WIDTH - LEFT - RIGHT) / most
    height = TOP + ROW * len(rows) + 16
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
           rectangle(0, 0, WIDTH, height, "#fff"),
           text(12, 24, title, size=15, weight="bold"), text(12, 44, unit, size=12, fill="#555")]
    for index, (name, ours, parts, low, high) in enumerate(rows):
        y = TOP + ROW * index
        middle = y + BAR / 2
        out.append(text(LEFT - 8, middle + 4, name, "end", weight="bold" if ours else "normal"))
        x = LEFT
        for part, fill in zip(parts, (OURS, OURS_LIGHT) if ours else (THEIRS, THEIRS_LIGHT)):
            out.append(rectangle(x, y, part * scale, BAR, fill))
            x += part * scale
        out += [line(LEFT + low * scale, middle, LEFT + high * scale, middle)]
        out += [line(LEFT + end * scale, middle - 4, LEFT + end * scale, middle + 4) for end in (low, high)]
        label = LEFT + max(high, sum(parts)) * scale + 8
        times = f"  {sum(parts) / sum(rows[0][2]):.2f}x" if index and sum(rows[0][2]) else ""
        out.append(text(label, middle + 4, f"{sum(parts):.3g}{times}", size=12))
    return "\n".join(out + [line(LEFT, TOP - 6, LEFT, height - 10), "</svg>"]) + "\n"


GROUP_LEFT, GROUP_BAR = 330, 11
GROUP_COLOURS = ("#8a8a8a", "#b9a06b", "#a3678f", "#7fb7c9", "#c4c4c4", "#4f4f4f")


def groups(title, unit, names, rows):
    """An SVG document of ratios: for each row a bar for each name, and a line at 1. Rows: name, values (None: no bar)."""
    most = max(value for _, values in rows for value in values if value is not None)
    scale = (WIDTH - GROUP_LEFT - 60) / max(most, 1)
    legend_rows = (len(names) + 2) // 3
    top = TOP + 18 * legend_rows
    bottom = top + sum(GROUP_BAR * sum(value is not None for value in values) + 14 for _, values in rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 16}" '
           f'viewBox="0 0 {WIDTH} {bottom + 16}" font-family="sans-serif">',
           rectangle(0, 0, WIDTH, bottom + 16, "#fff"),
           text(12, 24, title, size=15, weight="bold"), text(12, 44, unit, size=12, fill="#555")]
    for index, (name, colour) in enumerate(zip(names, GROUP_COLOURS)):
        x, y = 12 + index % 3 * 265, TOP + index // 3 * 18
        out += [rectangle(x, y - 9, 12, 10, colour), text(x + 18, y, name, size=12)]
    y = top
    for row, values in rows:
        shown = [(value, colour) for value, colour in zip(values, GROUP_COLOURS) if value is not None]
        out.append(text(GROUP_LEFT - 8, y + GROUP_BAR * len(shown) / 2 + 4, row, "end", 12))
        for value, colour in shown:
            out += [rectangle(GROUP_LEFT, y, value * scale, GROUP_BAR - 2, colour),
                    text(GROUP_LEFT + value * scale + 5, y + GROUP_BAR - 2, f"{value:.2f}", size=10)]
            y += GROUP_BAR
        y += 14
    return "\n".join(out + [line(GROUP_LEFT, top - 8, GROUP_LEFT, bottom),
                            line(GROUP_LEFT + scale, top - 8, GROUP_LEFT + scale, bottom, "#c33"), "</svg>"]) + "\n"


CURVES_HEIGHT, BOTTOM = 420, 56
COLOURS = (OURS, OURS_LIGHT)


def circle(x, y, radius, fill):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}"/>'


def ticks(most):
    """About five round numbers up to so much."""
    step = 10 ** (len(str(int(most))) - 1)
    step = next(step * part for part in (0.1, 0.2, 0.5, 1, 2) if most / (step * part) <= 6)
    return [step * index for index in range(int(most / step) + 1)]


def curves(title, unit, along, series):
    """An SVG document of curves. Series: name and points (x, median, least, most)."""
    points = [point for _, line_points in series for point in line_points]
    widest = max(point[0] for point in points) or 1
    highest = max(point[3] for point in points) or 1
    left, top, right = 64, TOP + 10, 190

    def at(x, y):
        return (left + x / widest * (WIDTH - left - right),
                CURVES_HEIGHT - BOTTOM - y / highest * (CURVES_HEIGHT - BOTTOM - top))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{CURVES_HEIGHT}" '
           f'viewBox="0 0 {WIDTH} {CURVES_HEIGHT}" font-family="sans-serif">',
           rectangle(0, 0, WIDTH, CURVES_HEIGHT, "#fff"),
           text(12, 24, title, size=15, weight="bold"), text(12, 44, unit, size=12, fill="#555"),
           text(WIDTH - right, CURVES_HEIGHT - 14, along, "end", 12, fill="#555")]
    for y in ticks(highest):
        out += [line(left, at(0, y)[1], WIDTH - right, at(0, y)[1], "#e4e4e4"),
                text(left - 8, at(0, y)[1] + 4, f"{y:g}", "end", 12)]
    for x in sorted({point[0] for point in points}):
        out.append(text(at(x, 0)[0], CURVES_HEIGHT - BOTTOM + 18, f"{x:g}", "middle", 12))
    last_label = CURVES_HEIGHT
    for (name, line_points), colour in sorted(zip(series, COLOURS), key=lambda one: one[0][1][-1][1]):
        places = [at(x, middle) for x, middle, _, _ in line_points]
        out += [line(*one, *other, colour) for one, other in zip(places, places[1:])]
        for (x, middle, low, high), place in zip(line_points, places):
            out += [line(*at(x, low), *at(x, high), colour), circle(*place, 4, colour)]
        last_label = min(places[-1][1] + 4, last_label - 16)  # Labels do not lie upon each other.
        out.append(text(places[-1][0] + 10, last_label, f"{name}: {line_points[-1][1]:.3g}", fill=colour))
    return "\n".join(out + [line(left, top, left, CURVES_HEIGHT - BOTTOM),
                            line(left, CURVES_HEIGHT - BOTTOM, WIDTH - right, CURVES_HEIGHT - BOTTOM), "</svg>"]) + "\n"
