"""Problems and configurations that would start code, write elsewhere or fill the memory."""

from __future__ import annotations

import pytest

from sciuq_runner.config.compose import compose, refuse_code, register_resolvers
from sciuq_runner.config.problem_files import refuse_bomb
from sciuq_runner.errors import ConfigError
from tests.conftest import Inside
from tests.security.conftest import CALL, everywhere

SMOKE = ("fidelity=smoke", "method=dens", "tracking=none", "gold=null")

PROBLEM = """
coordinates: {x: [0, 1]}
unknowns: {u: [x]}
observed:
  u: {value: 0, points: 5, noise: 0.1}
"""

BAD_PROBLEMS = {
    "target": f"_target_: os.system\n{PROBLEM}",
    "inner target": PROBLEM.replace("noise: 0.1", "noise: {_target_: os.mkdir, path: ATTACKED}"),
    "source target": PROBLEM.replace("{value: 0, points: 5, noise: 0.1}", "{_target_: os.mkdir, path: ATTACKED}"),
    "parameter target": f"{PROBLEM}\nparameters: {{k: {{_target_: os.mkdir, path: ATTACKED}}}}",
    "python object": f"{PROBLEM}\nexact: !!python/object/apply:os.mkdir [ATTACKED]",
    "python name": f"{PROBLEM}\nexact: {{u: !!python/name:os.system }}",
    "python module": f"{PROBLEM}\nexact: {{u: !!python/object/new:os.system [mkdir ATTACKED]}}",
    "defaults": f"defaults: [/hydra/launcher: basic]\n{PROBLEM}",
    "import": PROBLEM.replace("value: 0", "value: \"__import__('os').mkdir('ATTACKED')\""),
    "resolver": PROBLEM.replace("value: 0", "value: ${eval:1}"),
    "laughs": "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
    + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + PROBLEM,
    "itself": f"{PROBLEM}\nexact: &a {{u: *a}}",
    "deep": f"{PROBLEM}\nexact: {'[' * 3000}{']' * 3000}",
    "link": PROBLEM.replace("value: 0, points: 5", "file: /dev/zero"),
    "folder": PROBLEM.replace("value: 0, points: 5", "file: ../../../../../../etc/passwd"),
}


@pytest.mark.parametrize("name", BAD_PROBLEMS)
def test_a_malicious_problem_is_refused_in_a_sentence(inside: Inside, tmp_path, sentence, name):
    (tmp_path / "problem.yaml").write_text(BAD_PROBLEMS[name])
    found = inside("problem=problem.yaml", *SMOKE)
    assert found.status == 2, found.out
    assert found.err.startswith("sciuq-run: ")
    assert found.err.count("\n") == 1, found.err
    sentence(found.err)
    assert not (tmp_path / "runs").exists()


START = "{_target_: subprocess.Popen, args: [mkdir, ATTACKED]}"


BAD_CONFIGS = {
    "problem/bad": "_target_: os.mkdir\npath: ATTACKED\n",
    "method/bad": "_target_: subprocess.Popen\nargs: [mkdir, ATTACKED]\n",
    "model/bad": f"_target_: sciuq_runner.models.bnn.BNN\nnetwork: {START}\n",
    "calibration/bad": f"by: {{bad: {CALL}}}\n",
    "experiment/empty_trust": everywhere("trust: ['']"),
    "experiment/trust": everywhere(f"trust: [subprocess]\nmodel: {{network: {START}}}"),
    "experiment/callback": everywhere(f"hydra: {{callbacks: {{bad: {CALL}}}}}"),
    "experiment/launcher": everywhere(f"hydra: {{launcher: {CALL}}}"),
    "experiment/sweeper": everywhere(f"hydra: {{sweeper: {{max_batch_size: {CALL}}}}}"),
    "experiment/logging": everywhere(
        "hydra: {job_logging: {handlers: {bad: {class: subprocess.Popen, args: [mkdir, ATTACKED]}}}}"
    ),
    "experiment/factory": everywhere('hydra: {hydra_logging: {formatters: {bad: {"()": os.mkdir, path: ATTACKED}}}}'),
    "experiment/attribute": everywhere(
        "hydra: {callbacks: {bad: {_target_: sciuq_runner.cli.run.os.mkdir, path: ATTACKED}}}"
    ),
    "experiment/attribute_of_hydra": everywhere(
        "hydra: {callbacks: {bad: {_target_: hydra._internal.utils.os.mkdir, path: ATTACKED}}}"
    ),
    "experiment/elsewhere": everywhere(f"hydra: {{callbacks: {{bad: '${{experiment}}'}}}}\nexperiment: {CALL}"),
    "experiment/chosen": everywhere(f"hydra: {{callbacks: {{bad: '${{at:{{smoke: {CALL}}}}}'}}}}"),
    "experiment/later": everywhere(f"hydra: {{callbacks: {{bad: '${{pick:${{hydra.job.num}},{{else: {CALL}}}}}'}}}}"),
    "experiment/path": everywhere("hydra: {job: {env_set: {PATH: mine}}}"),
    "experiment/copied": everywhere("hydra: {job: {env_copy: [HOME]}}"),
    "experiment/name": everywhere("hydra: {job: {name: ../../ATTACKED}}"),
    "experiment/subdir": everywhere("hydra: {output_subdir: ../../ATTACKED}"),
    "experiment/mode": everywhere("hydra: {mode: MULTIRUN, sweeper: {params: {hydra.job.env_set.PATH: mine}}}"),
    "experiment/file": everywhere("hydra: {job_logging: {handlers: {file: {filename: ATTACKED}}}}"),
    "experiment/other_file": everywhere(
        "hydra: {hydra_logging: {handlers: {bad: {class: logging.FileHandler, filename: ATTACKED, mode: w}}}}"
    ),
    "experiment/truncated": everywhere(  # a formatter is made with its format first, which is here a file to open
        "hydra: {job_logging: {formatters: {bad: {class: logging.FileHandler, format: ATTACKED, datefmt: w}}}}"
    ),
    "experiment/imported": everywhere("hydra: {job_logging: {root: {level: 'ext://evil.INFO'}}}"),
    "experiment/laughs": everywhere(BAD_PROBLEMS["laughs"]),
    "experiment/tag": everywhere("seed: !!python/object/apply:os.mkdir [ATTACKED]"),
}


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_a_malicious_configuration_is_refused_in_a_sentence(inside: Inside, tmp_path, sentence, name):
    group, _, choice = name.partition("/")
    (tmp_path / "mine" / group).mkdir(parents=True)
    (tmp_path / "mine" / f"{name}.yaml").write_text(BAD_CONFIGS[name])
    settings = [item for item in SMOKE if item.partition("=")[0] != group]
    found = inside("--config-dir", "mine", f"{group}={choice}", *settings)
    assert found.status == 2, found.out
    assert found.err.count("\n") == 1, found.err
    sentence(found.err)
    assert not (tmp_path / "runs").exists()


BAD_LAUNCHERS = {
    "setup": "hydra: {launcher: {setup: [mkdir ATTACKED]}}",
    "parameter": "hydra: {launcher: {additional_parameters: {comment: mkdir}}}",
    "line": 'hydra: {launcher: {additional_parameters: {"a\\nmkdir ATTACKED\\n": 1}}}',
    "comment": 'hydra: {launcher: {comment: "a\\nmkdir ATTACKED\\n"}}',
    "folder": "hydra: {launcher: {submitit_folder: outside}}",
    "hidden": "hydra: {launcher: {setup: [mkdir ATTACKED]}, sweeper: {params: {hydra.launcher.setup: 'null'}}}",
}


@pytest.mark.parametrize("name", BAD_LAUNCHERS)
def test_a_configuration_cannot_tell_a_cluster_what_to_run(inside: Inside, tmp_path, sentence, name):
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    (tmp_path / "mine/experiment/bad.yaml").write_text(everywhere(BAD_LAUNCHERS[name]))
    found = inside("--config-dir", "mine", "-m", "experiment=bad", "sweep=slurm", "seed=0,1", *SMOKE)
    assert found.status == 2, found.out
    assert found.err.count("\n") == 1, found.err
    sentence(found.err)
    assert "hydra.launcher" in found.err
    assert not (tmp_path / "runs").exists()


def test_what_is_typed_may_tell_a_cluster_what_to_run():
    register_resolvers()
    typed = [
        "sweep=slurm",
        "hydra.launcher.setup=[module load cuda]",
        "+hydra.launcher.additional_parameters.mail_user=me",
        "hydra.launcher.partition=${oc.env:HOME}",
    ]
    refuse_code(compose(typed, None, with_hydra=True), typed)
    for index in (1, 2):
        with pytest.raises(ConfigError, match="give it on the command line"):
            refuse_code(compose(typed, None, with_hydra=True), [*typed[:index], *typed[index + 1 :]])


@pytest.mark.parametrize(
    "choices", [[], ["sweep=local"], ["sweep=slurm"], ["sweep=slurm_local"], ["hydra/job_logging=default"]]
)
def test_what_we_ship_needs_no_trust(choices):
    register_resolvers()
    refuse_code(compose(choices, None, with_hydra=True), choices)


def test_a_callback_needs_trust(monkeypatch):
    register_resolvers()
    typed = ["+hydra.callbacks.mine={_target_: my_module.Callback}"]
    composed = compose(typed, None, with_hydra=True)
    monkeypatch.delenv("SCIUQ_TRUST", raising=False)
    with pytest.raises(ConfigError, match=r"add trust=\[my_module\] on the command line"):
        refuse_code(composed, typed)
    monkeypatch.setenv("SCIUQ_TRUST", "my_module")
    refuse_code(composed, typed)


def test_aliases_are_fine_while_they_are_few(tmp_path):
    (tmp_path / "fine.yaml").write_text("a: &a {x: [1, 2, 3]}\nb: *a\nc: [*a, *a]\n")
    refuse_bomb(tmp_path / "fine.yaml")
