"""How good predictions are: metrics, diagnostics, comparisons and figures."""
