"""What a run may hand over: it is judged, stored, published and found again in Git."""
