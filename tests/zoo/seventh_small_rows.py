"""Small models of a seventh sample, chosen before anything of it was exported."""
from seventh_images import ROWS as IMAGES
from seventh_sequences import ROWS as SEQUENCES
from seventh_tables import ROWS as TABLES

ROWS = [*TABLES, *SEQUENCES, *IMAGES]
