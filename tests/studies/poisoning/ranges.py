"""What the section ``poisoning`` of params.yaml may hold: each key's range from both sides, and the checks between keys."""

from ...params.rules import Range, Rule, rule

P = "poisoning"
CIFAR = {f"{P}.prepare.dataset": "cifar10"}
TOO_MANY_SEEDS = 2**32

ATTACKS_OF = f"{P}.craft.attacks"
STUDIES = f"{P}.studies"
PAIR = ["SENet18", "ResNet18"]

# key: (allowed, refused), every bound from both sides
RANGES: dict[str, Range] = {
    f"{P}.seeds": (
        [[0], [TOO_MANY_SEEDS - 1, 3]],
        [[], [-1], [TOO_MANY_SEEDS], [1, 1], [0.5], ["0"], [True], 0],
    ),
    f"{P}.prepare.dataset": (["digits"], ["mnist", "Digits", 8]),
    f"{P}.prepare.pretrain_per_class": ([7, 70], [0, -1, 70.0, "70", True]),
    f"{P}.prepare.pool_start": ([70, 79], [0, 70.0, "70", None]),
    f"{P}.pretrain.substitutes.architectures": ([["DPN92"]], [[], ["VGG"], ["DPN92", "DPN92"], "DPN92"]),
    f"{P}.pretrain.substitutes.dropout": ([[0], [0.0, 0.99]], [[], [1], [1.0], [-0.1], [0.2, 0.2], 0.2]),
    f"{P}.pretrain.network.width": ([0.01, 1, 4], [0, -1.0, 4.1, float("inf"), float("nan"), "1", False]),
    f"{P}.pretrain.network.half_depth": ([[], ["DPN92"]], [["VGG"], ["DPN92", "DPN92"], "DPN92"]),
    f"{P}.pretrain.training.epochs": ([1, 300], [0, -1, 1.5]),
    f"{P}.pretrain.training.lr": ([1.0e-9, 1], [0, 0.0, -0.1, float("inf"), float("nan"), "0.1"]),
    f"{P}.pretrain.training.momentum": ([0, 0.99], [1, -0.1]),
    f"{P}.pretrain.training.weight_decay": ([0, 0.0, 2], [-1.0e-9, float("inf"), float("nan")]),
    f"{P}.pretrain.training.schedule": (["step"], ["linear"]),
    f"{P}.pretrain.training.crop_padding": ([0, 16], [-1, 17, 1.0]),
    f"{P}.pretrain.training.flip": ([True, False], [0, 1, "true", None]),
    f"{P}.pretrain.training.label_smoothing": ([0, 0.5], [1, -0.1]),
    f"{P}.adversarial_training.adversarial.eps": ([1.0e-6, 1], [0, -0.1, 1.0001, float("nan")]),
    f"{P}.adversarial_training.adversarial.steps": ([1, 40], [0, -1, 3.0]),
    f"{P}.adversarial_training.adversarial.step_size": ([1.0e-6, 2], [0, -0.1, float("inf"), float("nan")]),
    f"{P}.adversarial_training.training.epochs": ([1], [0, 1.5]),
    f"{P}.adversarial_training.training.schedule": (["step", "cosine"], ["linear", None]),
    f"{P}.craft.poison_class": ([0, 9], [-1, 10, 1.0]),
    f"{P}.craft.poisons": ([1, 50], [0, -5]),
    f"{P}.craft.targets": ([5, 20], [0, -1]),
    f"{ATTACKS_OF}.convex_polytope.eps": ([1.0e-6, 1, 1.0], [0, -0.1, 1.0001, float("nan")]),
    f"{ATTACKS_OF}.feature_collision.lr": ([0.04], [0, -0.04, float("nan")]),
    f"{ATTACKS_OF}.multi_layer.iterations": ([1], [0, 10.0]),
    f"{ATTACKS_OF}.bullseye_polytope.dropout": ([True, False], [0, 0.2, "true"]),
    f"{ATTACKS_OF}.convex_polytope.target_dropout": (["fixed", "off"], ["on", True, None]),
    f"{ATTACKS_OF}.adaptive_polytope.weight": ([0, 10.0], [-0.1, float("nan")]),
    f"{ATTACKS_OF}.adaptive_polytope.margin": ([0, 1], [-0.1, 1.1]),
    f"{ATTACKS_OF}.gradient_matching.parameters": (["head", "all"], ["heads", "", 1, None]),
    f"{ATTACKS_OF}.gradient_matching.restarts": ([1, 8], [0, 1.0]),
    f"{ATTACKS_OF}.gradient_matching.augment.crop_padding": ([0, 16], [-1, 17]),
    f"{ATTACKS_OF}.gradient_matching.augment.flip": ([True, False], [0, None]),
    f"{ATTACKS_OF}.white_box_collision.mu_multiple": ([1.0e-6, 100], [0, -1, float("inf"), float("nan")]),
    f"{ATTACKS_OF}.white_box_watermark.watermark": ([0, 0.99], [1, 1.0, -0.1, float("nan")]),
    f"{P}.filter.deep_knn.k": ([1, 499], [0, -1, 2.0]),
    f"{P}.filter.deep_knn.sweep": ([[2], [2, 499]], [[], [0], [5, 2], [2, 2]]),
    f"{P}.filter.deep_knn.include_self": ([True, False], [0, "no"]),
    f"{P}.filter.deep_knn.label_ties": (["smallest"], ["largest", False, None]),
    f"{P}.filter.l2_outliers.fraction": ([0, 0.99], [1, -0.1, float("nan")]),
    f"{P}.filter.one_class_svm.nu": ([0.01, 1], [0, 1.01, -0.1]),
    f"{P}.filter.random_eviction.feature_collision_fraction": ([0, 0.99], [1, -0.1]),
    f"{P}.filter.spectral_signatures.fraction": ([0, 0.99], [1, -0.1]),
    f"{P}.filter.activation_clustering.components": ([1, 512], [0, 2.5]),
    f"{P}.filter.activation_clustering.threshold": ([0.01, 0.5], [0, 0.51]),
    f"{P}.filter.epic.fraction": ([0, 0.99], [1, -0.1]),
    f"{P}.filter.epic.rounds": ([1, 10], [0, 1.5]),
    f"{P}.filter.epic.steps": ([1, 100], [0, "1"]),
    f"{P}.train.transfer.milestones": ([[], [1, 299]], [[0], [45, 30], [30, 30], 30]),
    f"{P}.train.transfer.reset_head": ([True, False], [1, None]),
    f"{P}.train.transfer.train_mode": ([True, False], [0, "true"]),
    f"{P}.train.end_to_end.milestones": ([[], [1, 11]], [[0], [9, 6], [6, 6], 6]),
    f"{P}.train.partition_aggregation.parts": ([1, 500], [0, 10.0]),
    f"{P}.train.mixup.alpha": ([0.1, 1], [0, -1.0, float("inf")]),
    f"{P}.train.end_to_end.test_images": ([1, 397], [0, 3.0]),
    f"{STUDIES}.transfer.feature_collision": (
        [[], ["deep_knn"], ["adversarial_training", "l2_outliers"], ["partition_aggregation"]],
        [["none"], ["mixup"], ["deep_knn", "deep_knn"], "deep_knn", [1]],
    ),
    f"{STUDIES}.transfer.convex_polytope": ([[]], [["knn"]]),
    f"{STUDIES}.transfer.bullseye_polytope": ([[], ["one_class_svm"]], [["knn"]]),
    f"{STUDIES}.transfer.adaptive_polytope": ([[], ["deep_knn"]], [["knn"]]),
    f"{STUDIES}.transfer.gradient_matching": ([[], ["random_eviction"]], [["knn"]]),
    f"{STUDIES}.dropout.attacks": (
        [[], ["convex_polytope"], ["convex_polytope", "feature_collision"]],
        [["multi_layer"], ["convex_polytope", "convex_polytope"], "convex_polytope"],
    ),
    f"{STUDIES}.dropout.watch_every": ([1, 1000], [0, 10.0]),
    f"{STUDIES}.dropout.victims": ([[], PAIR], [["VGG"], ["ResNet18", "ResNet18"], "ResNet18"]),
    f"{STUDIES}.overlap.attack": (["convex_polytope"], ["feature_collision", ["convex_polytope"]]),
    f"{STUDIES}.left_out": ([[], ["gradient_matching"]], [["convex_polytope"], "bullseye_polytope"]),
    f"{STUDIES}.overlap.shared": ([[], ["disjoint", "full"]], [["none"], ["full", "full"], "full"]),
    f"{STUDIES}.overlap.substitutes.dropout": ([[0.0, 0.99]], [[], [1.0], [0.2, 0.2]]),
    f"{STUDIES}.overlap.epochs": ([0, 10], [-1, 10_001, 1.0]),
    f"{STUDIES}.overlap.victims": ([[], PAIR], [["VGG"]]),
    f"{STUDIES}.end_to_end.attacks": (
        [[], ["multi_layer"], ["multi_layer_as_released", "convex_polytope"]],
        [["feature_collision"], ["multi_layer", "multi_layer"]],
    ),
    f"{STUDIES}.end_to_end.defences": (
        [[], ["cutmix", "mixup"]],
        [["deep_knn"], ["partition_aggregation"], ["mixup", "mixup"], "mixup"],
    ),
    f"{STUDIES}.end_to_end.substitutes.architectures": ([["DPN92", "GoogLeNet"]], [[], ["VGG"]]),
    f"{STUDIES}.end_to_end.victims": ([[], PAIR], [["VGG"]]),
    f"{STUDIES}.end_to_end.targets": ([1, 20], [0, 5.0]),
    f"{STUDIES}.imbalance.attacks": ([[], ["feature_collision"]], [["multi_layer"], "convex_polytope"]),
    f"{STUDIES}.imbalance.victims": ([[], PAIR], [["VGG"]]),
    f"{STUDIES}.imbalance.k": ([1, 451], [0, 2.0]),
    f"{STUDIES}.imbalance.class_sizes": ([[1], [2, 50]], [[], [0], [5, 2], [2, 2], 2]),
    f"{STUDIES}.white_box.attacks": (
        [[], ["white_box_watermark", "white_box_convex_polytope"]],
        [["convex_polytope"], ["white_box_watermark", "white_box_watermark"]],
    ),
    f"{STUDIES}.white_box.victim": (["SENet18"], ["VGG", PAIR, None]),
    f"{STUDIES}.feature_plane.attack": (["feature_collision"], ["bullseye_polytope", ["convex_polytope"]]),
    f"{STUDIES}.feature_plane.victim": (["DPN92", "SENet18"], ["VGG", PAIR]),
    f"{STUDIES}.feature_plane.target": ([0, 19], [-1, 1.0]),
    f"{P}.evaluate.calibration_bins": ([2, 15], [1, 0]),
    f"{P}.evaluate.pgd.eps": (
        [[1.0e-6, 1], [0.5]],
        [[], [0], [0.0, 0.1], [1.01], [0.1, 0.05], [0.1, 0.1], [float("nan")], 0.1],
    ),
    f"{P}.evaluate.pgd.restarts": ([1, 5], [0, 1.5]),
    f"{P}.evaluate.pgd.images": ([1, 397], [0]),
    f"{P}.evaluate.corruptions.images": ([1, 397], [0, 100.0]),
    f"{P}.evaluate.hull.problems": ([1], [0]),
}

# (values that are just allowed together, values that are not, the key that the message must name)
RULES: list[Rule] = [
    rule(f"{P}.prepare.fine_tune_per_class", 50, 71),
    (
        {f"{P}.prepare.pool_start": 94, f"{P}.train.end_to_end.test_images": 100},
        {f"{P}.prepare.pool_start": 95},
        f"{P}.prepare.pool_start",
    ),
    rule(f"{P}.prepare.pool_start", 70, 69),
    rule(f"{P}.prepare.pool_start", 4930, 4931, CIFAR),
    rule(f"{P}.craft.poisons", 50, 51),
    rule(f"{P}.craft.targets", 20, 21),
    rule(f"{P}.craft.target_class", 2, 1),
    rule(f"{P}.filter.deep_knn.k", 499, 500),
    rule(f"{P}.filter.deep_knn.k", 500, 501, {f"{P}.filter.deep_knn.include_self": True}),
    rule(f"{P}.filter.deep_knn.sweep", [2, 499], [2, 500], at="[1]"),
    *(
        rule(f"{P}.train.{recipe}.milestones", [3, 6], [3, 7], {f"{P}.train.{recipe}.epochs": 7}, at="[1]")
        for recipe in ("transfer", "end_to_end")
    ),
    *(
        rule(f"{P}.{section}.batch_size", most, most + 1)
        for section, most in (
            ("pretrain.training", 700),
            ("adversarial_training.training", 700),
            ("train.transfer", 500),
            ("train.end_to_end", 500),
        )
    ),
    # who is attacked is there
    *(
        rule(f"{STUDIES}.{study}.victims", ["DenseNet121", "SENet18"], ["DenseNet121", "GoogLeNet"], at="[1]")
        for study in ("dropout", "overlap", "end_to_end", "imbalance")
    ),
    rule(f"{STUDIES}.white_box.victim", "DenseNet121", "GoogLeNet"),
    # targets of a study are among all targets
    rule(f"{STUDIES}.end_to_end.targets", 7, 8, {f"{P}.craft.targets": 7}),
    rule(f"{STUDIES}.feature_plane.target", 6, 7, {f"{P}.craft.targets": 7}),
    # a class is cut, and neighbours are among what is left: 9 classes of 50 and the smallest size, less the image itself
    rule(f"{STUDIES}.imbalance.class_sizes", [2, 50], [2, 51], at="[1]"),
    rule(f"{STUDIES}.imbalance.k", 452, 453, {f"{STUDIES}.imbalance.class_sizes": [3, 50]}),
    rule(f"{STUDIES}.imbalance.k", 452, 453, {f"{P}.filter.deep_knn.include_self": True}),
    # test images: of the digits what the two parts leave of 1797, of CIFAR-10 its own 10,000
    *(
        rule(f"{P}.{key}", 397, 398)
        for key in ("train.end_to_end.test_images", "evaluate.pgd.images", "evaluate.corruptions.images")
    ),
    rule(f"{P}.evaluate.corruptions.images", 10_000, 10_001, CIFAR),
]
