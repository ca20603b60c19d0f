"""The style of the page of `/debug/ui`: light and dark by the preference of the reader, stacked cells on a narrow screen."""

from __future__ import annotations

from typing import Final

__all__ = ["STYLE"]

STYLE: Final = """
:root { color-scheme: light dark; --text: #1d2330; --ground: #fff; --line: #d5d9e0; --faint: #545c6b; --head: #f2f4f7;
  --link: #0b57b0; --good: #17692f; --bad: #a8201a; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7ec; --ground: #14171c; --line: #3a404b; --faint: #a9b1bf; --head: #1e232b;
    --link: #8ab8ff; --good: #7ad08f; --bad: #ff9b94; }
}
body { margin: 0; background: var(--ground); color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 80rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: .5rem 0; unicode-bidi: isolate; }
h2 { font-size: 1.1rem; margin: 1.75rem 0 .5rem; }
a { color: var(--link); }
small, footer { color: var(--faint); font-size: .87rem; }
footer { margin-top: 2rem; }
strong { font-weight: 600; }
.good { color: var(--good); }
.bad { color: var(--bad); font-weight: 600; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid var(--line); white-space: pre-line;
  min-width: 7rem; }
tbody th { font-weight: 600; }
th small { font-weight: 400; }
thead th { background: var(--head); font-size: .87rem; white-space: nowrap; }
form { display: flex; flex-wrap: wrap; gap: .6rem; align-items: center; }
input, button { font: inherit; color: inherit; background: var(--head); border: 1px solid var(--faint); border-radius: 4px;
  padding: .25rem .5rem; max-width: 100%; box-sizing: border-box; }
@media (max-width: 60rem) {
  table, tbody, tr, tbody th, td { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tr { border: 1px solid var(--line); border-radius: 6px; margin-bottom: .75rem; padding: .25rem 0; }
  tbody th, td { border: 0; padding: .25rem .75rem; min-width: 0; }
  td:empty { display: none; }
  td::before { content: attr(data-label); display: block; color: var(--faint); font-size: .8rem; }
}
"""
"""CSS without a character that HTML gives a meaning in a `style` element."""
