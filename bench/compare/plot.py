"""A bar for each variant, as SVG: the median, user and system apart, and the range of the rounds."""

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
