"""Small models of a sixth sample, chosen before anything of it was exported."""
from sixth_images import ROWS as IMAGES
from sixth_sequences import ROWS as SEQUENCES
from sixth_tables import ROWS as TABLES

ROWS = [*SEQUENCES, *TABLES, *IMAGES]
