"""Who is next and why. Pure: it reads a projection and a time, and changes neither."""
