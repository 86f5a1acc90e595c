"""How straight the best temperature is in the exponent of focal temperature scaling."""
