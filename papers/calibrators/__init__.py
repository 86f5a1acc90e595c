"""Every calibrator on files of other people's networks."""
