"""Questions to one schema: what a name means, which members it has, and a name for each inline object."""

from mcprev_codegen.resolve.distribution import distribute as distribute
from mcprev_codegen.resolve.flat import FlatField as FlatField, FlatType as FlatType
from mcprev_codegen.resolve.inline_objects import hoist as hoist
from mcprev_codegen.resolve.schema import Discriminator as Discriminator, Schema as Schema
