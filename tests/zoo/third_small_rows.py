"""Small models of a third sample; they need PyTorch alone."""
import third_formulas
import third_images
import third_sequences
import third_series
import third_tables

ROWS = third_images.ROWS + third_sequences.ROWS + third_series.ROWS + third_tables.ROWS + third_formulas.ROWS
