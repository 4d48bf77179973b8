"""`samtone train`: flags and YAML → `RunConfig` → `training.train`."""

from pathlib import Path

import samtone_tf
from samtone_tf.checks import check_choice
from samtone_tf.cli.parser import SOURCES_HELP, make_parser
from samtone_tf.config import SECTIONS, RunConfig

PRESETS = Path(samtone_tf.__file__).parent / "presets"

EXAMPLES = """
samtone train --data beir:scifact --out runs/scifact
samtone train --data pairs:faq.jsonl --out runs/faq --model.architecture ade_spl --train.steps 2000
samtone train --data beir:scifact --out runs/scifact --validation.split held_out \\
              --validation.patience 3
samtone train --config run.yaml --out runs/again --loss.same_tower both
samtone train --data beir:nq --out runs/nq --preset paper --model.init hf:google/t5-v1_1-base
samtone train --data beir:scifact --print_config > run.yaml
samtone train --out runs/scifact --resume
samtone train --data beir:scifact --out runs/scifact --train.strategy mirrored
"""


def run(arguments: list[str]) -> None:
    """Parses and trains."""
    parser = make_parser(
        "train",
        "Train a dual encoder on pairs of texts and write a run folder.",
        "--data SOURCE --out RUN [options]",
        EXAMPLES,
    )
    parser.add_argument("--config", action="config", help="YAML file; flags override it")
    parser.add_argument(
        "--preset", type=str, help="settings to begin with: paper (SamToNe's own); flags override"
    )
    parser.add_argument("--out", required=True, type=str, help="run folder to write; must be new")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run in --out after its last save"
    )
    for name, kind in SECTIONS.items():
        parser.add_class_arguments(kind, name)
    _explain_data(parser)
    arguments = preset_first(config_first(spell_out_data(arguments)))
    if "--resume" in arguments:
        # The run's own configuration is the default; flags may repeat it, not change it.
        out = parser.parse_args(arguments).out
        if (Path(out) / "config.yaml").is_file():
            arguments = [f"--config={out}/config.yaml", *arguments]
    parsed = parser.parse_args(arguments)
    made = parser.instantiate(parsed)
    config = RunConfig(**{name: getattr(made, name) for name in SECTIONS})
    from samtone_tf.training.train import train
    from samtone_tf.workers import Workers

    model = train(config, parsed.out, resume=parsed.resume)
    if Workers(model.distribute_strategy).is_chief:
        print(f"wrote {parsed.out}\nnext: samtone export {parsed.out} saved_models/NAME/1")


def spell_out_data(arguments: list[str]) -> list[str]:
    """`--data X` is short for `--data.source X`; the flag itself would name a YAML file."""
    spelled = []
    for argument in arguments:
        if argument == "--data":
            argument = "--data.source"
        elif argument.startswith("--data="):
            argument = "--data.source=" + argument.removeprefix("--data=")
        spelled.append(argument)
    return spelled


def config_first(arguments: list[str]) -> list[str]:
    """Moves `--config FILE` to the front, so that flags override it wherever they stand."""
    files, rest = [], []
    remaining = iter(arguments)
    for argument in remaining:
        name, equals, value = argument.partition("=")
        if name == "--config":
            value = value if equals else next(remaining, "")
            check_yaml(value)
            files.append(f"--config={value}")
        else:
            rest.append(argument)
    return files + rest


def preset_first(arguments: list[str]) -> list[str]:
    """Puts the file of `--preset NAME` before everything that may override it."""
    spelled = [name.partition("=") for name in arguments]
    names = [
        value if equals else following
        for (name, equals, value), following in zip(spelled, [*arguments[1:], ""], strict=True)
        if name == "--preset"
    ]
    presets = {path.stem: path for path in sorted(PRESETS.glob("*.yaml"))}
    for name in names:
        check_choice("--preset", name, tuple(presets))
    return [f"--config={presets[name]}" for name in names] + arguments


def check_yaml(path: str) -> None:
    """Raises ValueError that names the file when it cannot be read as YAML."""
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            yaml.safe_load(file)
    except OSError as error:
        raise FileNotFoundError(
            f"`--config` must name a YAML file. Received: {path!r}, which cannot be read."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"`--config` must name a YAML file. Received: {path}: {error}") from error


def _explain_data(parser) -> None:
    for action in parser._actions:
        if action.option_strings == ["--data"]:
            action.metavar, action.help = "SOURCE", f"short for --data.source: {SOURCES_HELP}"
