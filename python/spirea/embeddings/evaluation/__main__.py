"""The command `spirea-embeddings`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..costs import Rates, Spirea
from . import published, real, synthetic
from .data import Interactions, Text
from .figures import draw
from .measured import measure_tables
from .report import as_json, markdown
from .study import DEFAULT, SHORT, Size, study_all

SIZES = {"default": DEFAULT, "short": SHORT}
# Number of files of the standard library that the size `short` reads.
FEW_FILES = 40


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="spirea-embeddings", description="Private look-ups of embeddings.")
    commands = parser.add_subparsers(dest="command", required=True)
    about = "searches the designs of GPU-DPF, and draws tables and figures in the form of its section V"
    reproduce = commands.add_parser("reproduce", help=about, description=about)
    reproduce.add_argument("--out", type=Path, default=Path("spirea-embeddings"), help="the folder to write to")
    reproduce.add_argument("--seed", type=int, default=0)
    reproduce.add_argument("--size", choices=SIZES, default="default", help="short: for a look at the form, in a minute")
    reproduce.add_argument("--wikitext2", type=Path, metavar="FOLDER", help="with wiki.train.tokens and wiki.test.tokens")
    reproduce.add_argument("--movielens", type=Path, metavar="FOLDER", help="MovieLens-20M's, with ratings.csv")
    reproduce.add_argument("--taobao", type=Path, metavar="FOLDER", help="with raw_sample.csv and user_profile.csv")
    reproduce.add_argument("--protocol", choices=sorted(Spirea.LEAF_ROWS), default="dpf-xor")
    measure = "this machine's rates in place of the recorded ones, and predicted times of tables beside measured ones"
    reproduce.add_argument("--measure", action="store_true", help=measure)
    options = parser.parse_args(arguments)
    try:
        _reproduce(options)
    except (OSError, ValueError, ImportError) as error:
        print(f"spirea-embeddings: {error}", file=sys.stderr)
        return 1
    return 0


def _reproduce(options: argparse.Namespace) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("the figures need matplotlib: pip install spirea[embeddings]")
    started = time.monotonic()

    def progress(said: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {said}", file=sys.stderr, flush=True)

    ours = Spirea(options.protocol, Rates.measure(options.protocol) if options.measure else None)
    measured = measure_tables(ours) if options.measure else []
    for each in measured:
        progress(f"{ours.name}, {each}")
    options.out.mkdir(parents=True, exist_ok=True)
    studies = study_all(_data(options, SIZES[options.size]), SIZES[options.size], options.seed, progress)
    (options.out / "results.md").write_text(markdown(studies, ours, measured, options.seed, options.size), encoding="utf-8")
    results = as_json(studies, ours, measured, options.seed)
    (options.out / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    for path in [options.out / "results.md", options.out / "results.json", *draw(studies, options.out)]:
        print(path)


def _data(options: argparse.Namespace, size: Size) -> list[Callable[[], Text | Interactions]]:
    """Returns loaders of the published data if its files are given, else of synthetic data; and of Python's standard
    library."""
    seed, users, part = options.seed, size.users, size.part
    files = None if part == 1 else FEW_FILES
    text, films, clicks = options.wikitext2, options.movielens, options.taobao
    return [
        (lambda: published.wikitext2(text)) if text else lambda: synthetic.text(131_000 // part, size.words, seed=seed),
        (lambda: published.movielens(films, most=users, seed=seed))
        if films
        else lambda: synthetic.films(27_000 // part, users, seed=seed),
        (lambda: published.taobao(clicks, most=users, seed=seed))
        if clicks
        else lambda: synthetic.advertisements(900_000 // part, users, seed=seed),
        lambda: real.standard_library_text(files),
        lambda: real.standard_library_names(files, seed=seed),
    ]


if __name__ == "__main__":
    sys.exit(main())
