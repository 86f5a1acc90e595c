"""A Tree-LSTM on SST with fifteen losses, under two conventions."""
