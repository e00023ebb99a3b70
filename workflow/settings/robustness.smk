# The study `robustness` (zhu2022, section 5.3.4): what the networks of `long_short` withstand.
from relearn.studies.long_short.networks import NAMES as LS_NAMES

WITHSTAND = PARAMS["robustness"]["withstand"]
WITHSTAND_RUN = f"{ROOT}/runs/robustness/withstand/{{network}}/seed{{seed}}"
WITHSTAND_RUNS = expand(WITHSTAND_RUN, network=WITHSTAND["networks"], seed=PARAMS["long_short"]["seeds"])
REFERENCE = WITHSTAND["reference"]


def withstand_reference(wildcards):
    """Errors of the network that mCE is relative to; none for itself, nor where nothing is corrupted by us."""
    if wildcards.network == REFERENCE or REFERENCE not in WITHSTAND["networks"]:
        return []
    return expand(f"{WITHSTAND_RUN}/sets.csv", network=REFERENCE, seed=wildcards.seed)


def withstand_settings(wildcards):
    own = {key: value for key, value in WITHSTAND.items() if key not in ("networks", "reference")}
    pgd, sets = dict(own["pgd"]), {name: folder for name, folder in own["sets"].items() if folder}
    settings = {
        "sets": sets,
        "protocol": dict(own["protocol"]) if sets else None,
        "pgd": pgd if pgd["images"] else None,
        "autoattack": None,
        "network": None,
    }
    return {**own, **settings}


def withstand_modules(wildcards):
    return modules_behind(LS_NAMES[wildcards.network])

# render
