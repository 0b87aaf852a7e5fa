"""What people meet: the command line, the pytest plugin, and the renderings of a report."""
