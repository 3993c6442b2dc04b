"""A server for the Model Context Protocol: tools, resources and prompts over stdio or HTTP.

Deferred imports, to start quickly: what a first answer does not need: how calls are answered, addresses, errors.
"""
