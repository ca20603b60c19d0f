"""Films that a farm renders: people can pause each of them, or all of a namespace (docs/guide/reconcilers.md)."""

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


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Film).owns(JOB).pausable("example.com/paused").reconciled_by(FilmReconciler()))
