"""MLflow: the only package that knows it. A tracking failure warns and never loses a result."""
