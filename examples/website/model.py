"""The kind Website: the spec, which its users write, and the status, which the operator writes."""

from typing import Annotated

from pydantic import Field

import konverge as kv
from konverge.crds import Cel


class WebsiteSpec(kv.Model):
    image: str | None = None
    """The image of a web server that listens on port 8080."""
    html: str | None = None
    """The text of a single page, instead of an image."""
    replicas: Annotated[int, Field(ge=0)] | None = None
    """The number of pods; leave it out for an autoscaler."""
    host: str | None = None
    """The name in the address of the website; without it, only the cluster reaches the website."""


class WebsiteStatus(kv.Status):
    ready_replicas: int = 0
    """The number of pods that are ready."""
    url: str | None = None


@kv.resource(
    "web.example.com/v1",
    short_names=("web",),
    conditions=("Ready",),
    columns=(
        kv.Column.condition("Ready"),
        kv.Column("Pods", ".status.readyReplicas", type="integer"),
        kv.Column("URL", ".status.url"),
    ),
    rules=(Cel("has(self.spec.image) != has(self.spec.html)", "set either image or html"),),
)
class Website(kv.CustomResource[WebsiteSpec, WebsiteStatus]):
    """A website in pods of its own."""
