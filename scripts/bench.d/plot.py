"""A bar chart as SVG that reads on light and dark pages, without any library."""

from xml.sax.saxutils import escape

WIDTH, ROW, GAP, LEFT, RIGHT, TOP = 760, 22, 8, 150, 60, 44

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; }
.name { text-anchor: end; }
.own { fill: #1f7a5c; }
.other { fill: #8b949e; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .own { fill: #3fb98f; }
  .other { fill: #6e7681; }
}
"""

# What stands beside the gateway.
OTHERS = {"pass-through", "nginx", "peer first", "peer replay", "peer redis first",
          "peer redis replay"}


def bars(title, values):
    """One bar for each (name, value), from zero."""
    longest = max(value for _, value in values)
    height = TOP + len(values) * (ROW + GAP) + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>",
        f'<text class="title" x="{GAP}" y="24">{escape(title)}</text>',
    ]
    for index, (name, value) in enumerate(values):
        top = TOP + index * (ROW + GAP)
        length = (WIDTH - LEFT - RIGHT) * value / longest
        base = top + ROW - 6
        lines += [
            f'<text class="name" x="{LEFT - GAP}" y="{base}">{escape(name)}</text>',
            f'<rect class="{"other" if name in OTHERS else "own"}" x="{LEFT}" y="{top}" '
            f'width="{length:.1f}" height="{ROW}" rx="3"/>',
            f'<text x="{LEFT + length + GAP:.1f}" y="{base}">{value:.1f}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"
