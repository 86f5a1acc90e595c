"""Which samples calibrators are fitted on, which calibrators, and which of them is recommended."""
