"""One handler an output type, all of them behind one gate."""
