"""A server for the Model Context Protocol: tools, resources and prompts over stdio or HTTP."""
