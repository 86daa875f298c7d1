"""Architectures of transformers of a sixth sample, chosen before anything of it was exported."""
from sixth_language import ROWS as LANGUAGE
from sixth_sense import ROWS as SENSE

ROWS = [*LANGUAGE, *SENSE]
