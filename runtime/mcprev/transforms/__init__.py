"""Tools made of what an app has already: changed tools, a search for tools, code that calls tools, and resources and prompts as tools.

Each function changes an app in place. What is made keeps the checks, the visibility, the dependencies and the errors of
what it is made of. These names are public; the modules are not.
"""

from mcprev.transforms.as_tools import prompts_as_tools, resources_as_tools
from mcprev.transforms.code import Sandbox, tools_by_code
from mcprev.transforms.sandbox import CallTool, MontySandbox
from mcprev.transforms.search import tools_by_search
from mcprev.transforms.tools import Argument, ToolCall, transform_tool

__all__ = [
    "Argument",
    "CallTool",
    "MontySandbox",
    "Sandbox",
    "ToolCall",
    "prompts_as_tools",
    "resources_as_tools",
    "tools_by_code",
    "tools_by_search",
    "transform_tool",
]
