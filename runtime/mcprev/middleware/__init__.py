"""Middleware that is ready to use, and a base class for one's own; see docs/middleware.md."""

from mcprev.middleware.answers import ErrorMapping as ErrorMapping, SizeLimit as SizeLimit
from mcprev.middleware.audit import Audit as Audit
from mcprev.middleware.caching import Caching as Caching
from mcprev.middleware.hooks import Hooks as Hooks
from mcprev.middleware.logs import Logging as Logging, Times as Times, Timing as Timing
from mcprev.middleware.metrics import Metrics as Metrics
from mcprev.middleware.records import CallRecord as CallRecord, recorded as recorded
from mcprev.middleware.retries import Retries as Retries
