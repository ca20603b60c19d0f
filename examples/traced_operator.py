"""An operator whose program has a provider of spans, and whose reconciler has spans of its own (docs/guide/tracing.md)."""

import asyncio

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")
WORDS = {"de": "Guten Tag", "fr": "Bonjour"}


class GreetingSpec(kv.Model):
    language: str


@kv.resource("example.com/v1", conditions=("Ready",))
class Greeting(kv.CustomResource[GreetingSpec, kv.Status]):
    """A greeting in a language."""


class Greeter:
    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("greeter")

    async def reconcile(self, greeting: Greeting, ctx: kv.Context[Greeting]) -> kv.Outcome:
        with self._tracer.start_as_current_span("translate", attributes={"language": greeting.spec.language}):
            text = WORDS.get(greeting.spec.language, "Hello")
        await ctx.own(CONFIG_MAP.new(greeting.name, greeting.namespace, data={"text": text}))
        ctx.status.set_condition("Ready", True, "Translated")
        return kv.Done()


def build(manager: kv.Manager, provider: TracerProvider) -> None:
    manager.tracing = provider  # before the start
    manager.add(kv.Controller.of(Greeting).owns(CONFIG_MAP).reconciled_by(Greeter(provider)))


async def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))
    manager = kv.Manager("greeter")
    build(manager, provider)
    try:
        async with manager:
            await manager.wait()
    finally:
        provider.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
