"""The suites that ship with xla_equiv: every other module of this package exports one SUITE."""
