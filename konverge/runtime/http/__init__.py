"""The HTTP servers: metrics, health, debug, webhooks."""
