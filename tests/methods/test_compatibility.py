"""Which problems, models and methods go together."""

import pytest
from sciuq_runner.problems.darcy import Darcy
from sciuq_runner.problems.forward_pde import ForwardPDE
from sciuq_runner.problems.function import Function
from sciuq_runner.problems.spde import SPDE

from sciuq_runner.errors import ConfigError
from sciuq_runner.methods.compatibility import objection, refuse_combination
from sciuq_runner.methods.dens import DEns
from sciuq_runner.methods.hmc import HMC
from sciuq_runner.methods.ld import LD
from sciuq_runner.methods.mfvi import MFVI
from sciuq_runner.methods.nuts import NUTS
from sciuq_runner.models.bnn import BNN
from sciuq_runner.models.deeponet import DeepONet
from sciuq_runner.models.gan_fp import GANFP
from sciuq_runner.models.gp_pi_gan import GPPIGAN
from sciuq_runner.models.nnpc import NNPC
from sciuq_runner.models.pa_bnn_fp import PABNNFP
from sciuq_runner.models.pi_gan import PIGAN


@pytest.mark.parametrize(
    ("problem", "model", "method"),
    [
        (Function(), BNN(), MFVI()),
        (Function(), GANFP(), HMC()),
        (SPDE(), NNPC(), MFVI()),
        (SPDE(), PIGAN(), DEns()),
        (Darcy(), DeepONet(), DEns()),
        (Darcy(case="noisy"), PABNNFP(), HMC()),
        *((ForwardPDE(), GPPIGAN(), method) for method in (HMC(), NUTS(), LD())),
    ],
)
def test_what_goes_together(problem, model, method):
    assert objection(problem, model, method) is None
    refuse_combination(problem, model, method)


@pytest.mark.parametrize(
    ("problem", "model", "method", "sentence"),
    [
        (Darcy(), BNN(), HMC(), "has an operator to learn, which BNN does not"),
        (Darcy(), NNPC(), HMC(), "has an operator to learn, which NNPC does not"),
        (Function(), DeepONet(), HMC(), "has no operator, which DeepONet would learn"),
        (SPDE(), PABNNFP(), HMC(), "has no operator, which PABNNFP would learn"),
        (SPDE(), BNN(), HMC(), "are random, and BNN is no model of such"),
        (Function(), NNPC(), HMC(), "are not random, as they are for NNPC"),
        (SPDE(), PIGAN(), HMC(), "no likelihood that HMC could use: use method=dens"),
        (ForwardPDE(), GPPIGAN(), DEns(), "which DEns does not: use method=hmc, nuts or ld"),
        (SPDE(), BNN(), DEns(), "are random"),  # the model before the method
    ],
)
def test_what_does_not(problem, model, method, sentence):
    found = objection(problem, model, method)
    assert found is not None
    assert sentence in found
    assert found.startswith(("model: ", "method: "))
    with pytest.raises(ConfigError) as refused:
        refuse_combination(problem, model, method)
    assert str(refused.value) == found
