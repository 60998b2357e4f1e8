"""The designs of GPU-DPF (Lam and others, arXiv 2301.10904, section V), searched again: data, models that are trained on it,
and their quality where look-ups are dropped. `spirea-embeddings reproduce` is the command."""

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
