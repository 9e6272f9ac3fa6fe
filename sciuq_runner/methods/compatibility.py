"""Whether a problem, a model and a method go together: one question, asked before any data are made.

The three declare what they are (:attr:`Problem.kind`, :attr:`Model.kind`, :attr:`Model.inference`,
:attr:`Method.inferences`); all sentences on what does not go together are here. What only the settings of one of them
rule out, it says itself: :meth:`Model.bind` and :meth:`Method.objection`.
"""

from __future__ import annotations

from sciuq_runner.errors import ConfigError
from sciuq_runner.methods.base import Method
from sciuq_runner.models.base import Model
from sciuq_runner.physics.problem import Dataset, Problem
from sciuq_runner.target.density import Target


def objection(problem: Problem, model: Model, method: Method) -> str | None:
    """One sentence on why these three do not go together; None where they do."""
    return units_objection(problem, model) or kind_objection(problem, model) or inference_objection(model, method)


def refuse_combination(problem: Problem, model: Model, method: Method) -> None:
    """Raise :class:`ConfigError` where the three do not go together."""
    sentence = objection(problem, model, method)
    if sentence:
        raise ConfigError(sentence)


def refuse_target(method: Method, target: Target) -> None:
    """Raise :class:`ConfigError` where mathematics does not allow a method to serve a target."""
    sentence = method.objection(target)
    if sentence:
        raise ConfigError(sentence)


def unit_advice(problem: Problem, model: Model, dataset: Dataset) -> list[str]:
    """Sentences on units for the person who set the problem; none where the model could not follow them."""
    return problem.advice(dataset) if model.takes_units else []


def units_objection(problem: Problem, model: Model) -> str | None:
    """On units of fields and coordinates that the model would not see."""
    if model.takes_units or not any(spec.has_units for spec in problem.fields.values()):
        return None
    return (
        f"model: {type(model).__name__} knows no units of fields and coordinates: leave out problem.units, or use "
        "model=bnn."
    )


def kind_objection(problem: Problem, model: Model) -> str | None:
    """On random fields, operators and plain fields, which need models of their own."""
    name = type(model).__name__
    match problem.kind, model.kind:
        case asked, made if asked == made:
            return None
        case "operator", _:
            return (
                f"model: this problem has an operator to learn, which {name} does not: "
                "use model=deeponet, or pa_gan_fp for one field with noisy readings."
            )
        case _, "operator":
            return f"model: this problem has no operator, which {name} would learn: use model=bnn."
        case "random fields", _:
            return f"model: the fields of this problem are random, and {name} is no model of such: use model=nnpc."
        case _:
            return f"model: the fields of this problem are not random, as they are for {name}: use model=bnn."


def inference_objection(model: Model, method: Method) -> str | None:
    """On models that leave something else to a method than a likelihood."""
    if model.inference in method.inferences:
        return None
    if model.inference == "adversarial":
        return (
            f"method: {type(model).__name__} is trained against a critic, and there is no likelihood that "
            f"{type(method).__name__} could use: use method=dens."
        )
    return (
        f"method: {type(model).__name__} has learned from the readings before inference, and what is left to "
        f"do is to draw from a prior, which {type(method).__name__} does not: use method=hmc, nuts or ld."
    )
