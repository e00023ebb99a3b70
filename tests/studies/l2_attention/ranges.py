"""Ranges of ``l2_attention`` in params.yaml and rules between its keys, written by hand; ``test_schema`` tries them."""

from ...params.rules import COUNT, POSITIVE, Range, Rule, rule

L = "l2_attention"
DEPTHS = ([[], [1], [1, 2, 14]], [[0], [2, 1], [1, 1], 1])
LENGTHS = ([[2], [2, 1000]], [[], [1], [3, 2], [2, 2], 2])
RANGES: dict[str, Range] = {
    f"{L}.characters.dataset": (["ptb"], ["wikitext", "PTB", None]),
    f"{L}.characters.max_length": ([8, 288], [7, 8.0]),
    **{f"{L}.characters.{part}_sentences": ([0, 10], [-1, 1.0]) for part in ("train", "valid", "test")},
    f"{L}.network.norm": (["post_ln", "no_norm"], ["pre_ln", None]),
    f"{L}.network.init_scale": POSITIVE,
    f"{L}.network.glorot": (["usual", "printed"], ["xavier", True]),
    f"{L}.shown_dim": ([0, 64, 512], [-64, 65_544, 64.0]),
    f"{L}.train.steps": ([3, 40], [0, 2.0]),
    f"{L}.warmup.gamma": ([[0.2, 2], [1]], [[], [0], [1.0, 1.0], 1.0]),
    f"{L}.warmup.warmup_steps": ([[1, 4000]], [[], [0], [2, 2], 2]),
    f"{L}.warmup.dropout": ([[0, 0.99]], [[], [1], [0.1, 0.1], 0.1]),
    f"{L}.fixed.lr": ([[0.001, 1]], [[], [0], [0.1, 0.1], 0.1]),
    **{f"{L}.depths.warmup.{kind}": DEPTHS for kind in ("lstm", "dp", "l2", "l2_tied", "contractive")},
    f"{L}.depths.warmup.l2_matched": DEPTHS,
    f"{L}.depths.fixed.contractive": DEPTHS,
    f"{L}.depths.fixed.dp_l2_start": DEPTHS,
    f"{L}.figure_2.lengths": LENGTHS,
    f"{L}.figure_2.starts": ([5, 50], [0, 5.0]),
    f"{L}.figure_2.row_steps": ([0, 300], [-1, 1.0]),
    f"{L}.figure_2.spread": POSITIVE,
    f"{L}.figure_2.top": ([1, 6], [0, 1.0]),
    f"{L}.figure_8.length": ([2, 64], [1, 2.0]),
    f"{L}.inversion.attentions": ([["dp"], ["contractive", "l2"]], [[], ["lstm"], ["dp", "dp"], "dp"]),
    f"{L}.inversion.dims": ([[8], [8, 64]], [[], [0], [24, 16], 8]),
    f"{L}.inversion.batch": COUNT,
    f"{L}.inversion.c": ([[0.0, 0.99]], [[], [1.0], [0.7, 0.5], 0.5]),
    f"{L}.inversion.iterations": COUNT,
    f"{L}.examine.spreads": ([[0.1, 1]], [[], [0], [2.0, 1.0], 1.0]),
    f"{L}.examine.keep": ([0.01, 0.99], [0, 1, 1.0, float("nan")]),
    f"{L}.examine.bins": ([2, 100], [1, 2.0]),
    f"{L}.clock.layers": ([[1], [2, 5]], [[], [0], [2, 1], 1]),
    f"{L}.clock.pairs": ([7, 15], [6, 7.0]),
}
RULES: list[Rule] = [
    rule(f"{L}.network.dim", 16, 20),
    ({f"{L}.clock.heads": 1}, {f"{L}.clock.heads": 1, f"{L}.clock.dim": 7}, f"{L}.clock.dim"),
    rule(f"{L}.figure_8.dim", 6, 7),
    rule(f"{L}.inversion.dims", [8, 24], [8, 12], at="[1]"),
    rule(f"{L}.inversion.dim", 24, 12),
    rule(f"{L}.examine.dims", [2, 6], [2, 5], at="[1]"),
    *(
        rule(f"{L}.{figure}.top", 5, 6, {f"{L}.{figure}.starts": 5})
        for figure in ("figure_2", "figure_7", "figure_8")
    ),
    rule(f"{L}.shown_dim", 24, 20),
    rule(f"{L}.shown_dim", 64, 8, {f"{L}.network.ffn": 130}),
    rule(f"{L}.depths.warmup.dp", [1, 3], [2, 3], at="[0]"),
    rule(f"{L}.train.evaluations", 60, 61),
]
