"""One short module per command: options and help, then one call of a documented function."""
