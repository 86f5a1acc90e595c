"""Whether later data differ from those of the fit, and what to do where class frequencies do."""
