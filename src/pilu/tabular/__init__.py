"""A table as companies have them: its columns, its problems, a default pipeline, its score."""

from pilu.exceptions import WrongTable
from pilu.tabular.frames import Frame, frame_of
from pilu.tabular.laying_out import lay_out
from pilu.tabular.layout import Layout
from pilu.tabular.pipelines import MODELS, describe_program, make_program
from pilu.tabular.scores import Score, cross_validated, score_of

__all__ = [
    "MODELS",
    "Frame",
    "Layout",
    "Score",
    "WrongTable",
    "cross_validated",
    "describe_program",
    "frame_of",
    "lay_out",
    "make_program",
    "score_of",
]
