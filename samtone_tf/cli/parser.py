"""The one kind of parser that every command uses: YAML, no abbreviations, one-line errors."""

from jsonargparse import ArgumentParser

SOURCES_HELP = (
    "beir:FOLDER, pairs:FILE (jsonl, tsv, csv, parquet or a Hugging Face folder), tfds:NAME, "
    "ir_datasets:ID, multireqa:FOLDER, msmarco:FOLDER or docstrings; see docs/data.md"
)


def make_parser(name: str, description: str, usage: str, examples: str) -> ArgumentParser:
    """A parser that raises `ArgumentError` instead of exiting.

    Args:
        name: of the command.
        description: one sentence.
        usage: what follows the command's name in the usage line.
        examples: whole commands, one a line.
    """
    from argparse import RawDescriptionHelpFormatter

    from jsonargparse import DefaultHelpFormatter

    class Formatter(DefaultHelpFormatter, RawDescriptionHelpFormatter):
        """Keeps the line breaks of the examples."""

    lines = "\n".join(f"  {line}" for line in examples.strip().splitlines())
    return ArgumentParser(
        prog=f"samtone {name}",
        usage=f"samtone {name} {usage}",
        description=description,
        epilog=f"examples:\n{lines}",
        formatter_class=Formatter,
        exit_on_error=False,
        # By default `--model.arch` would be taken for some other flag.
        allow_abbrev=False,
    )
