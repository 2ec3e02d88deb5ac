"""Child requests: what is pending is judged once, and becomes a child layer or is put away."""
