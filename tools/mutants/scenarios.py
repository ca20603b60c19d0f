"""Small operators, each with a story, that the lab explores on mutated copies of the tree; see `tools/mutants/catalogue.py`.

Promises: the unmutated tree passes every plan of every story here. A story says in its own words what it expects where the lab cannot know it: that a
child has the right owner, that nobody else's object is touched. The stories are ordinary lab scenarios; nothing in them knows of mutants.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final

from stories_apps import mover, namesakes
from stories_children import backup, hold, sites, takeover
from stories_others import budget, shelf, strangers
from stories_quota import dissolved, tenants
from stories_times import badge, bucket, errands, guarded, placid
from story_words import meddled_with

import konverge as kv
from konverge.testing.lab import Lab

__all__ = ["SCENARIOS"]


def _story(told: Callable[[Lab], Awaitable[None]]) -> Callable[[Lab], Awaitable[None]]:
    """Take a refusal for what it is where somebody else meddles: the story cannot go on as it expected."""

    @wraps(told)
    async def story(lab: Lab) -> None:
        try:
            await told(lab)
        except kv.ApiError as error:
            if meddled_with(lab):
                raise AssertionError(f"the story was refused: {error}") from error
            raise

    return story


SCENARIOS: Final = {
    one.__name__: _story(one)
    for one in (
        backup,
        bucket,
        guarded,
        sites,
        takeover,
        hold,
        errands,
        badge,
        strangers,
        shelf,
        budget,
        mover,
        namesakes,
        placid,
        tenants,
        dissolved,
    )
}
