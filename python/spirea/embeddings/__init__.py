"""Private look-ups in embedding tables: the look-ups of `torch.nn.Embedding` and `EmbeddingBag`, by private retrieval.

The techniques are those of GPU-DPF's co-design (Lam and others, arXiv 2301.10904, section IV): bins with one query each, a hot
table, joint storage of rows that occur together, and a tuner that chooses a design. docs/embeddings.md is the guide.
"""

from .collocation import Collocation
from .costs import Cost, CostModel, GpuDpf, OneServer, Rates, Spirea, cost
from .fetchers import PlainFetcher, RowFetcher, Traffic
from .layout import Design, Layout, Placement, Planner, Shape, StoredTable
from .lookups import Embedding, EmbeddingBag, PrivateRows, Report
from .quality import Encode, MeanCosine, NeighbourRecall, Quality, ShareRetrieved, mean_of
from .retrieval import Retrieval, retrieve
from .servers import ServerFetcher, build_tables, connect
from .traces import Traces
from .tuner import Limits, Link, Point, Space, Tuning, tune

__all__ = [
    "Collocation",
    "Cost",
    "CostModel",
    "Design",
    "Embedding",
    "EmbeddingBag",
    "Encode",
    "GpuDpf",
    "Layout",
    "Limits",
    "Link",
    "MeanCosine",
    "NeighbourRecall",
    "OneServer",
    "Placement",
    "PlainFetcher",
    "Planner",
    "Point",
    "PrivateRows",
    "Quality",
    "Rates",
    "Report",
    "Retrieval",
    "RowFetcher",
    "ServerFetcher",
    "Shape",
    "ShareRetrieved",
    "Space",
    "Spirea",
    "StoredTable",
    "Traces",
    "Traffic",
    "Tuning",
    "build_tables",
    "connect",
    "cost",
    "mean_of",
    "retrieve",
    "tune",
]
