"""Training: the loop, its schedules, first weights; arrays in, weights out."""
