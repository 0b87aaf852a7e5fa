"""One module for each sub-command of `xla-equiv`; each has the click command in `command`."""
