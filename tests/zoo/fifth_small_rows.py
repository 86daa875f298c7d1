"""Small models of a fifth sample, chosen before anything of it was run."""
from fifth_graphs import ROWS as GRAPHS
from fifth_images import ROWS as IMAGES
from fifth_series import ROWS as SERIES

ROWS = [*SERIES, *GRAPHS, *IMAGES]
