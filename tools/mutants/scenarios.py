"""Small operators, each with a story, that the lab explores on mutated copies of the tree; see `tools/mutants/catalogue.py`.

Guarantees: the unmutated tree passes every plan of every story here. A story asserts what the lab cannot know: that a child has the right
owner, that no foreign object is changed. The stories are ordinary lab scenarios; nothing in them knows of mutants.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final

from stories_apps import mover, namesakes
from stories_children import backup, hold, sites, takeover
from stories_mistakes import slips
from stories_others import budget, shelf, strangers
from stories_quota import dissolved, tenants
from stories_times import badge, bucket, errands, guarded, placid
from story_words import meddled_with

import konverge as kv
from konverge_testing.lab import Lab


def _story(told: Callable[[Lab], Awaitable[None]]) -> Callable[[Lab], Awaitable[None]]:
    """Accept an API error in a run with writes of other clients: the story cannot continue as planned."""

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
    item.__name__: _story(item)
    for item in (
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
        slips,
    )
}
