"""Films that a farm renders: people can pause them, and previews are rendered first (docs/guide/reconcilers.md)."""

import konverge as kv

JOB = kv.kind("batch/v1", "Job")


class FilmSpec(kv.Model):
    frames: int = 24


@kv.resource("example.com/v1", conditions=("Ready", "Paused"))
class Film(kv.CustomResource[FilmSpec, kv.Status]):
    """A film to render."""


class FilmReconciler:
    async def reconcile(self, film: Film, ctx: kv.Context[Film]) -> kv.Outcome:
        job = await ctx.own(render(film))
        ctx.status.set_condition("Ready", True, "Started", f"{job.name} renders {film.spec.frames} frames")
        return kv.Done()


def render(film: Film) -> kv.Object:
    container = {"name": "render", "image": "farm", "args": [str(film.spec.frames)]}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return JOB.new(film.name, film.namespace, spec=spec)


def previews_first(film: kv.Metadata, _: str) -> int:
    return 10 if film.label("example.com/quality") == "preview" else 0


def spare_the_farm() -> kv.Limiter[kv.Key]:
    """Retry each film after 1 s to 1 min, and all films together at most twice a second after the first ten retries."""
    return kv.MaxOf(kv.ItemExponential(base=1, cap=60), kv.Bucket(rate=2, burst=10))


def build(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Film)
        .owns(JOB)
        .pausable("example.com/paused")
        .prioritized(previews_first)
        .retries(limiter=spare_the_farm)
        .reconciled_by(FilmReconciler())
    )
