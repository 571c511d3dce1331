"""Writes tables into hand-written Markdown: the lines between `<!-- begin NAME -->` and `<!-- end NAME -->`."""

import pathlib


def table(header, rows):
    """A Markdown table; cells are converted to text, and a bar in a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def replace_block(path, name, text):
    """Put `text` between the markers of block `name` in the file `path`; ValueError where it has no such block."""
    path = pathlib.Path(path)
    document = path.read_text()
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    head, opened, rest = document.partition(begin)
    _, closed, tail = rest.partition(end)
    if not (opened and closed):
        raise ValueError(f"{path} has no block between {begin.strip()} and {end}")
    path.write_text(head + begin + text.strip() + "\n" + end + tail)
