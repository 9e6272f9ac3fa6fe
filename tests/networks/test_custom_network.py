"""Any ``torch.nn.Module`` can be the network, for every method."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sciuq_runner.problems.function import Function
from torch import Tensor, nn

from sciuq_runner.models import BNN
from sciuq_runner.predict.predictive import predict
from sciuq_runner.schema import Factory
from sciuq_runner.seeds import stream
from sciuq_runner.target.density import Target
from sciuq_runner.training.loop import Loop
from tests.conftest import Inside, read_metrics, run_folders
from tests.table import ROWS


class Residual(nn.Module):
    def __init__(self, n_inputs: int, n_outputs: int, width: int = 8) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(n_inputs, width), nn.Linear(width, n_outputs)
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return self.last(x)


class Siren(nn.Module):
    def __init__(self, n_inputs: int, n_outputs: int, width: int = 8, frequency: float = 5.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(n_inputs, width), nn.Linear(width, width), nn.Linear(width, n_outputs)])
        self.register_buffer("frequency", torch.tensor(frequency))
        with torch.no_grad():
            for layer in self.layers[1:]:
                bound = math.sqrt(6 / width) / frequency
                layer.weight.uniform_(-bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = torch.sin(self.frequency * layer(x))
        return self.layers[-1](x)


@pytest.mark.parametrize("module", [Residual, Siren])
@pytest.mark.parametrize(
    "name", [*(name for name in ROWS if name != "nuts"), pytest.param("nuts", marks=pytest.mark.full)]
)
def test_every_method_runs_on_it(module, name):
    row = ROWS[name]
    problem = Function(case="known" if row.noisy is None else "unknown", n_train=8)
    data = problem.dataset(stream(0, "data"))["u"]
    model = BNN(network=Factory(module, {"width": 6})).bind(problem, problem.noise)
    target = Target(model, problem.noise, {"u": data.train}, {"u": data.validation})
    method = row.with_settings(row.brief)
    assert method.objection(target) is None
    posterior = method.run(target, torch.Generator().manual_seed(0), Loop())
    found = predict(target, posterior, "u", np.linspace(-1, 1, 5)[:, None])
    assert np.isfinite(found.mean).all()
    assert (found.std > 0).all()


@pytest.mark.cli
def test_it_is_named_on_the_command_line(cli, inside: Inside, tmp_path):
    source = Path(__file__).read_text()
    (tmp_path / "my_nets.py").write_text("import math\nimport torch\nfrom torch import Tensor, nn\n\n")
    body = source[source.index("class Residual") : source.index("@pytest.mark.parametrize")]
    with (tmp_path / "my_nets.py").open("a") as file:
        file.write(body)
    network = "model.network={_target_: my_nets.Siren, width: 12}"
    refused = inside("fidelity=smoke", network)
    assert refused.status == 2
    assert "add trust=[my_nets]" in refused.err
    found = cli("fidelity=smoke", "tracking=none", "figures=false", "gold=null", network, "trust=[my_nets]")
    assert found.returncode == 0, found.stderr
    (folder,) = run_folders(tmp_path)
    assert read_metrics(folder)["config"]["model"]["network"]["width"] == 12
