"""Write the pages of the site into `build/pages`, where the generator of the site finds them: `python -m pages.assemble`."""

import shutil
import sys
from pathlib import Path
from typing import Final

from pages import generated, links

ROOT: Final = Path(__file__).resolve().parent.parent.parent


def documents(root: Path) -> dict[str, str]:
    """Return the documents of a repository: the path of each in the repository, and the path of its page."""
    below = sorted(path.relative_to(root).as_posix() for path in (root / "docs").rglob("*.md"))
    return {path: links.page_of(path, root) for path in (*links.DOCUMENTS, *below)}


def assemble(root: Path, folder: Path) -> None:
    """Write each document, generated page, linked source, figure and style into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    texts = {path: (root / path).read_text() for path in documents(root)}
    pages = {links.page_of(path, root): links.rewritten(path, text, root) for path, text in texts.items()}
    linked = {target for path, text in texts.items() for target in links.targets(path, text)}
    sources = {path: links.page_of(path, root) for path in sorted(linked)}
    pages |= {page: links.shown(path, root) for path, page in sources.items() if page.startswith(f"{links.SOURCES}/")}
    pages |= generated.pages()
    for page, text in pages.items():
        place = folder / page
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for path in (root / "docs").rglob("*"):
        if path.suffix in {".css", ".png", ".svg"}:
            place = folder / path.relative_to(root / "docs")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)


if __name__ == "__main__":
    assemble(ROOT, Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "pages")
