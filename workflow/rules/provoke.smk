# provoke: the largest loss near each sample, for networks trained three ways (zhu2022, equation 3.5 and table 3.5).


rule provoke_all:
    input:
        expand("{run}/record.json", run=PROVOKE_RUNS),
    localrule: True


use rule run as provoke with:
    input:
        vanilla=provoked("vanilla"),
        pgd=provoked("pgd"),
        freelb=provoked("freelb"),
    output:
        record=f"{PROVOKE_RUN}/record.json",
        increases=f"{PROVOKE_RUN}/increases.csv",
    log:
        f"{ROOT}/logs/freelb/provoke/{{encoder}}/{{task}}/seed{{seed}}.log",
    wildcard_constraints:
        task="[a-z_0-9]+",
    resources:
        **needs(mem_mb=8000, minutes=1440),
    params:
        **words("provoke", study="freelb", settings=provoke_settings),
