"""SVG elements. All text is escaped here. Colours are CSS classes, so that a page can be light or dark."""

from __future__ import annotations

import html
import math
import re

Value = str | float
DEFINITION = re.compile(r"--([\w-]+): ([^;]+);")
VARIABLE = re.compile(r"var\(--([\w-]+)\)")


def element(name: str, *children: str, **attributes: Value) -> str:
    """An element with children that are already SVG; ``stroke_width`` becomes the attribute stroke-width."""
    pairs = "".join(f' {_name(key)}="{html.escape(_text(value))}"' for key, value in attributes.items())
    return f"<{name}{pairs}>{''.join(children)}</{name}>" if children else f"<{name}{pairs}/>"


def text(words: str, x: float, y: float, **attributes: Value) -> str:
    """Text at a position."""
    return element("text", html.escape(words), x=x, y=y, **attributes)


def hint(words: str) -> str:
    """A tooltip for the parent element."""
    return element("title", html.escape(words))


def line(x1: float, y1: float, x2: float, y2: float, **attributes: Value) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def rect(x: float, y: float, width: float, height: float, *children: str, **attributes: Value) -> str:
    """A rectangle."""
    return element("rect", *children, x=x, y=y, width=max(width, 0), height=max(height, 0), **attributes)


def chart(name: str, title: str, description: str, size: tuple[float, float], *children: str) -> str:
    """A whole chart; ``name`` makes its ids unique on the page."""
    head = (
        element("title", html.escape(title), id=f"{name}-title"),
        element("desc", html.escape(description), id=f"{name}-desc"),
    )
    return element(
        "svg",
        *head,
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_text(size[0])} {_text(size[1])}",
        width=size[0],
        height=size[1],
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        class_="chart",
    )


def standalone(svg: str, style: str) -> str:
    """Convert a chart to an .svg file with its own background and light colours."""
    colours = dict(DEFINITION.findall(style[: style.index("@media")]))
    rules = style[style.index("\n.chart") :]
    plain = VARIABLE.sub(lambda found: colours[found[1]], rules)  # many programs do not support CSS variables
    ground = element("rect", width="100%", height="100%", fill=colours["surface"])
    end_of_head = svg.index(">") + 1
    style_part = element("style", html.escape(plain, quote=False))
    head, rest = svg[:end_of_head], svg[end_of_head:]
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}{style_part}{ground}{rest}\n'


def ticks(high: float, most: int = 5) -> list[float]:
    """Round numbers from 0 to at least ``high``, in at most ``most`` steps of 1, 2 or 5 times a power of ten."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    return [number * step for number in range(math.ceil(high / step - 1e-9) + 1)]


def spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Move positions so that they are at least ``gap`` apart, keeping their order and, if possible, the bounds."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed: list[float] = []
    for index in order:
        placed.append(max(wanted[index], placed[-1] + gap if placed else low))
    over = high
    for place in reversed(range(len(placed))):
        placed[place] = min(placed[place], over)
        over = placed[place] - gap
    result = [0.0] * len(wanted)
    for index, value in zip(order, placed, strict=True):
        result[index] = value
    return result


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _text(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
