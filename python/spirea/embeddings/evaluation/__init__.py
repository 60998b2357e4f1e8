"""Searches the designs of GPU-DPF (Lam and others, arXiv 2301.10904, section V) again: data, models trained on the data, and
the models' quality with dropped look-ups. The command is `spirea-embeddings reproduce`."""

from .data import Examples, Interactions, Source, Text
from .language import LanguageModel, Perplexity
from .recommending import AreaUnderCurve, Recommender, auc
from .study import DEFAULT, SHORT, Size, Study, study_all

__all__ = [
    "DEFAULT",
    "SHORT",
    "AreaUnderCurve",
    "Examples",
    "Interactions",
    "LanguageModel",
    "Perplexity",
    "Recommender",
    "Size",
    "Source",
    "Study",
    "Text",
    "auc",
    "study_all",
]
