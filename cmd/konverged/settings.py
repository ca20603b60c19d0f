"""The settings of an operator that runs as a process.

Guarantees: every number is documented with its unit and default; `konverge config` shows them with the value in force and its source. All
defaults are safe to run with. None of the settings is a secret.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from konverge.client import ClientSettings
from konverge.errors import UsageError
from konverge.informers import InformerSettings
from konverge.runtime import ElectionSettings, ShardingSettings
from konverge.runtime.admission.settings import WebhookSettings
from konverge.runtime.http.listener import Limits, parse_address

__all__ = ["PREFIX", "Overrides", "Settings"]

PREFIX = "KONVERGE_"

Seconds = Annotated[float, Field(ge=0)]


def _names(value: Any) -> Any:
    """Let a list of names be written `a,b` as well."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _address(value: Any) -> Any:
    if isinstance(value, str):
        try:
            parse_address(value)
        except UsageError as error:
            raise ValueError(str(error)) from error  # pydantic reports a ValueError as an error of this field
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Address = Annotated[str, BeforeValidator(_address)]


class Overrides(BaseModel):
    """Numbers that replace the controllers' numbers; an unset number leaves the controller's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    concurrency: Annotated[int, Field(ge=1)] | None = None
    """Reconciles of one controller at once; one key never runs twice at a time."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds that a reconcile may take; then it is cancelled and retried."""
    barrier: Seconds | None = None
    """Seconds to wait for the cache to show the controller's own writes; then the reconcile runs anyway, and is counted."""
    min_interval: Seconds | None = None
    """Seconds between the starts of two reconciles of one key, at least."""
    debounce: Seconds | None = None
    """Seconds without a further event to wait for after an event, so that a burst leads to one reconcile."""
    resync: Seconds | None = None
    """Seconds after which every object is reconciled without an event, give or take 10 %. 0: never."""
    base_delay: Annotated[float, Field(gt=0)] | None = None
    """Seconds before the first retry; doubles with each failure."""
    max_delay: Annotated[float, Field(gt=0)] | None = None
    """Seconds between retries at most."""

    def numbers(self) -> dict[str, Any]:
        """Return the numbers that are set, by name, as `Controller.with_` takes them."""
        return self.model_dump(exclude_none=True)


class Settings(BaseSettings):
    """How an operator runs: `konverge run`, and `kv.run` for a user's operator.

    >>> Settings(namespace="web").drain
    25.0
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)

    kubeconfig: str = ""
    """The kubeconfig to use. Empty: $KUBECONFIG, else the mounted ServiceAccount, else ~/.kube/config."""
    context: str = ""
    """The context of the kubeconfig; empty: its current context."""
    service_account: str = ""
    """The folder of the mounted ServiceAccount (token, ca.crt, namespace); empty: where the kubelet mounts it."""
    namespace: str = ""
    """Watch only this namespace; empty: the whole cluster."""
    controllers: Names = ()
    """The controllers to run, by name, or by the name of their family; empty: all."""

    metrics: Address = ":8080"
    """Where /metrics is served: host:port, :port for every interface, 0 for not at all. controller-runtime's port."""
    metrics_secure: bool = False
    """Serve metrics over TLS, and only to clients that TokenReview and SubjectAccessReview (get /metrics) accept."""
    metrics_certificates: str = ""
    """With `metrics_secure`: the folder of tls.crt and tls.key, read again when they change. Empty: self-made, which no client can
    verify."""
    health: Address = ":8081"
    """Where /healthz and /readyz are served. controller-runtime's port."""
    debug: Address = "127.0.0.1:8082"
    """Where /debug is served; 0: nowhere. Whatever the address is, only the peers 127.0.0.1 and ::1 are served: use a port-forward."""
    debug_ui: bool = False
    """Serve pages for a browser at /debug/ui too: controllers, objects that are not ready, the timeline of an object."""

    listeners: Limits = Limits()
    """Connections and timeouts of each of these listeners. Equal addresses share one listener, and its limit of connections."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severity that is logged."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """One JSON object per line, or lines for people; auto: lines for people if standard error is a terminal."""

    tracing: bool = False
    """Export spans of reconciles and requests by OTLP over HTTP; OTEL_* variables configure it. Needs the extra konverge[otel]."""

    event_loop: Literal["auto", "asyncio", "uvloop"] = "auto"
    """auto: uvloop if it is installed (the extra konverge[speed]) and the process neither elects nor shards, else asyncio's own loop."""

    drain: Seconds = 25.0
    """Seconds that running reconciles have after SIGTERM; below the 30 s that a pod has."""
    strict: bool = False
    """Treat a malformed condition as an error instead of cutting it; for tests."""
    stall: Seconds = 0.1
    """A reconcile that blocks the event loop for longer than this many seconds is reported with its stack; 0: never."""

    record: str = ""
    """The file that records what each reconcile reads and writes, for `konverge replay`; {pid} and {hostname} may be in its name. Empty:
    nothing is recorded. Values of Secrets are blanked, the rest of the objects is not."""
    record_size: Annotated[int, Field(ge=1)] = 64
    """MiB that the recording and its older file FILE.1 take together, at most."""

    reconcile: Overrides = Overrides()
    """Numbers for every controller."""
    controller: dict[str, Overrides] = Field(default_factory=dict)
    """Numbers for single controllers, by name; they win over `reconcile`."""
    client: ClientSettings = ClientSettings()
    """Timeouts, retries and parallelism of requests."""
    informers: InformerSettings = InformerSettings()
    """How kinds are listed and watched."""
    election: ElectionSettings = ElectionSettings()
    """Whether replicas elect a writer, and the Lease of the election."""
    sharding: ShardingSettings = ShardingSettings()
    """Whether replicas share the objects, and the ring that they form."""
    webhooks: WebhookSettings = WebhookSettings()
    """Where webhooks are served, and how the API server finds and trusts them."""

    @field_validator("sharding", mode="before")
    @classmethod
    def _off(cls, value: Any) -> Any:
        """Read YAML's `mode: off`, which is a false there."""
        return {**value, "mode": "off"} if isinstance(value, dict) and value.get("mode") is False else value

    @model_validator(mode="after")
    def _delays(self) -> Settings:
        for overrides in (self.reconcile, *self.controller.values()):
            if overrides.base_delay and overrides.max_delay and overrides.base_delay > overrides.max_delay:
                raise ValueError("base_delay is greater than max_delay")
        return self

    @model_validator(mode="after")
    def _secure_metrics(self) -> Settings:
        if self.metrics_certificates and not self.metrics_secure:
            raise ValueError("metrics_certificates takes metrics_secure=true")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  # the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # as above
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # as above
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use only the given values: `konverge.daemon.config.load` reads the sources, and traces each value."""
        return (init_settings,)
