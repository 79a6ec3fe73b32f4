"""The models of the 2017 benchmarks, for frameworks whose plugins do not know them."""
