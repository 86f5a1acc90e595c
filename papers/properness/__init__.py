"""Which losses are proper, keep the class and are convex."""
