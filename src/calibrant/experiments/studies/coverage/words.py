words = lambda n: {}
