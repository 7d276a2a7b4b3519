"""Tools made of the operations of an OpenAPI document, or of a web application that has one."""
