"""The publications that this project reproduces, with their citations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Publication:
    """One dissertation or paper."""

    title: str
    authors: str
    venue: str
    year: int
    url: str

    @property
    def cited(self) -> str:
        """Authors, title, venue and year in one line."""
        return f"{self.authors}. {self.title}. {self.venue}, {self.year}."


PUBLICATIONS = {
    "zhu2022": Publication(
        "Towards Reliable and Efficient Representation Learning",
        "Chen Zhu",
        "Dissertation, University of Maryland",
        2022,
        "https://drum.lib.umd.edu/items/b5256f8f-a320-47e7-949c-57b1d8002552",
    ),
    "kim2020": Publication(
        "The Lipschitz Constant of Self-Attention",
        "Hyunjik Kim, George Papamakarios, Andriy Mnih",
        "International Conference on Machine Learning",
        2021,
        "https://arxiv.org/abs/2006.04710",
    ),
    "qi2023": Publication(
        "LipsFormer: Introducing Lipschitz Continuity to Vision Transformers",
        "Xianbiao Qi, Jianan Wang, Yihao Chen, Yukai Shi, Lei Zhang",
        "International Conference on Learning Representations",
        2023,
        "https://arxiv.org/abs/2304.09856",
    ),
    "touvron2021": Publication(
        "Going Deeper with Image Transformers",
        "Hugo Touvron, Matthieu Cord, Alexandre Sablayrolles, Gabriel Synnaeve, Hervé Jégou",
        "International Conference on Computer Vision",
        2021,
        "https://arxiv.org/abs/2103.17239",
    ),
    "ye2023": Publication(
        "Mitigating Transformer Overconfidence via Lipschitz Regularization",
        "Wenqian Ye, Yunsheng Ma, Xu Cao, Kun Tang",
        "Conference on Uncertainty in Artificial Intelligence",
        2023,
        "https://arxiv.org/abs/2306.06849",
    ),
}
