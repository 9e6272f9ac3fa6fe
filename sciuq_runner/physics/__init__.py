"""What a problem is made of: quantities, observations, fields and their derivatives, equations and data files."""
