"""What both roles share: connections that drive an engine, conversions of a method, what a handler serves."""
