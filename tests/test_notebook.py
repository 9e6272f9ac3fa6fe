"""The notebook of the first steps runs as it stands."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent / "examples" / "first_steps.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook after a run at smoke fidelity, in a folder of its own."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    first = notebook.cells[1]
    assert 'fidelity = "quick"' in first.source
    first.source = first.source.replace('fidelity = "quick"', 'fidelity = "smoke"')
    folder = tmp_path_factory.mktemp("notebook")
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def shown(cell, kind):
    return [output["data"][kind] for output in cell.outputs if kind in output.get("data", {})]


def test_it_goes_from_arrays_to_a_field_parameters_and_a_comparison(executed):
    problem, figure, predictions, parameters, table = [cell for cell in executed.cells if cell.cell_type == "code"][1:]
    assert any("<progress" in text for text in shown(problem, "text/html"))
    assert shown(figure, "image/png")
    assert "u_cal_upper" in shown(predictions, "text/html")[0]
    assert "r_hat" in shown(parameters, "text/html")[0]
    assert shown(table, "text/html")[-1].count("finished") == 3


def test_the_user_writes_fewer_than_thirty_lines():
    cells = [cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    assert sum(len(source.splitlines()) for source in cells) < 30
