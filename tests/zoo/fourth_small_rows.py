"""Small models of a fourth sample; they need PyTorch alone."""
import fourth_images
import fourth_sequences
import fourth_tables

ROWS = fourth_images.ROWS + fourth_sequences.ROWS + fourth_tables.ROWS
