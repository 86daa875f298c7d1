"""Small models of every kind that people write themselves; they need PyTorch alone."""
import small_detached
import small_images
import small_modulated
import small_sequences
import small_tables

ROWS = small_images.ROWS + small_sequences.ROWS + small_tables.ROWS + small_detached.ROWS + small_modulated.ROWS
