"""Coverage of intervals, and false alarms of verdicts, gates and monitors."""
