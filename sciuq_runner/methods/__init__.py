"""Methods: the equations of inference. One method, one file; each sees only a target."""
