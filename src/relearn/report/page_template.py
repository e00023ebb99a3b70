"""The one page of the report: plain HTML with its style inside, readable on a phone and on paper."""

STYLE = """
:root{--ink:#222;--muted:#666;--line:#ddd;--paper:#fff;--soft:#f6f6f3}
*{box-sizing:border-box}
body{font:16px/1.55 system-ui,-apple-system,"Segoe
UI",sans-serif;color:var(--ink);background:var(--paper);
 margin:0 auto;max-width:78rem;padding:1.5rem}
h1{font-size:1.7rem;margin:.2rem 0}h2{font-size:1.3rem;margin:2.4rem 0 .6rem;border-top:1px solid
var(--line);
 padding-top:1.2rem}h3{font-size:1.05rem;margin:1.6rem 0 .3rem}
p{max-width:52rem}small,.muted{color:var(--muted)}nav a{margin-right:1rem}a{color:#0b5cad}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.88rem;margin:.6rem 0}
th,td{padding:.35rem .6rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}
th{background:var(--soft);font-weight:600;vertical-align:bottom}th:first-child,td:first-child{text-align:left
}
td{white-space:nowrap}
table.text th,table.text td{text-align:left;white-space:normal}td.lacking{color:var(--muted)}
img{max-width:min(100%,52rem);height:auto}figure{margin:.6rem 0}
.verdict{display:inline-block;padding:.05rem
.55rem;border-radius:.7rem;font-size:.82rem;white-space:nowrap;
 background:#eee;color:#333}
.reproduced{background:#d8efdc;color:#14532d}.direction{background:#e6f0d4;color:#3b4f10}
.inconclusive{background:#fdf0cd;color:#6b4a00}.contradicted{background:#f9d9d5;color:#7f1d1d}
.underpowered{background:#e4e4ee;color:#3a3a5c}.partial{background:#d9e9f7;color:#12406b}
details{margin:.2rem 0 .6rem}summary{cursor:pointer;color:var(--muted)}
ul{margin:.2rem 0;padding-left:1.2rem}code{font-size:.9em}
@media print{body{max-width:none}details{display:none}}
"""

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>relearn, scale {{ scale }}</title>
<style>{{ style }}</style>
</head>
<body>
<h1>relearn: measured beside published, scale {{ scale }}</h1>
<p class="muted">{{ runs }} runs, the last on {{ day }}; code {{ versions|join(', ') or 'unknown' }}</p>
<ul class="muted">{% for machine in machines %}<li>{{ machine }}</li>{% endfor %}</ul>
<p>
{%- for word, count in tally.items() %}
<span class="verdict {{ word.split(' ')[0] }}">{{ count }} {{ word.replace('_', ' ') }}</span>
{%- endfor %}
</p>
<nav>
<a href="#claims">Claims</a> <a href="#analysis">Why not</a>
{%- for chapter in chapters %} <a href="#{{ chapter.id }}">{{ chapter.title }}</a>{% endfor %}
<a href="#coverage">Coverage</a>
<a href="#deviations">Deviations</a>
{%- if settings %} <a href="#settings">Settings</a>{% endif %} <a href="#errata">Errata</a> <a href="#cost">Cost</a>
</nav>
{%- if problems %}
<h2>Records that could not be used</h2>
<ul>{% for problem in problems %}<li>{{ problem }}</li>{% endfor %}</ul>
{%- endif %}

<h2 id="claims">Claims</h2>
<p>A claim without the trials and the model quality that it needs is underpowered whatever its numbers say.
Poisoning: 20 targets on 4 victims of 60% accuracy; differences are paired by victim, seed and target, and the
bootstrap draws targets. GradInit: 3 seeds, image networks that reach 60%, translation 10 BLEU. Lipschitz
self-attention: 3 seeds, language models better than the training text's pairs of characters, which need no
attention. Both: differences are paired by seed, Student's t over seeds. Intervals are 95%.</p>
{%- for section, group in claims.items() if group.judged %}
<h3>{{ section.replace('_', ' ') }}</h3>
<div class="wide"><table class="text">
<tr><th>claim</th><th>says</th><th>effect [95%]</th><th>claimed</th><th>n</th><th>verdict</th></tr>
{%- for claim in group.judged %}
<tr>
<td><code>{{ claim.id }}</code><br><small>{{ claim.source }}</small></td>
<td>{{ claim.says }}
{%- for remark in claim.remarks %}<br><small>{{ remark }}</small>{% endfor %}
<details><summary>{{ claim.parts|length }} comparisons, {{ claim.runs|length }} runs</summary>
<ul>{% for part in claim.parts %}<li>{{ part }}</li>{% endfor %}</ul>
<ul>{% for run in claim.runs %}<li><a href="{{ run }}/record.json">{{ run }}</a></li>{% endfor %}</ul>
</details></td>
<td>{{ claim.effect }}{% if claim.main %}<br><small>{{ claim.main }}</small>{% endif %}</td>
<td>{{ claim.claimed }}</td><td>{{ claim.n }}</td>
<td><span class="verdict {{ claim.verdict }}">{{ claim.word }}</span></td>
</tr>
{%- endfor %}
</table></div>
{%- endfor %}
<h3>Not run</h3>
<ul class="muted">
{%- for section, group in claims.items() if group.open %}
<li>{{ section.replace('_', ' ') }}: {{ group.open|join(', ') }}</li>
{%- endfor %}
</ul>

<h2 id="analysis">Claims that did not come out, and why</h2>
{%- for one in explained %}
<h3><code>{{ one.claim.id }}</code> <span class="verdict {{ one.claim.verdict }}">
{{- one.claim.verdict.replace('_', ' ') }}</span></h3>
{%- if one.analysis %}
{%- if one.stale %}<p class="muted">Out of date: written for the verdict {{ one.analysis.verdict }}.</p>{% endif %}
<p>{{ one.analysis.text }}</p>
{%- if one.analysis.experiment %}<p>Experiment: {{ one.analysis.experiment }}</p>{% endif %}
<p class="muted">Cause: {{ one.analysis.cause }}; {{ one.analysis.date }}, commit {{ one.analysis.commit }}</p>
{%- else %}
<p class="muted">{{ none_written }}</p>
{%- endif %}
{%- else %}
<p class="muted">Every judged claim came out.</p>
{%- endfor %}

{%- for chapter in chapters %}
<h2 id="{{ chapter.id }}">{{ chapter.title }}: tables and figures</h2>
{%- if chapter.coverage %}
<p class="muted">{{ chapter.coverage }}.</p>
{%- endif %}
{%- for item in chapter.artefacts %}
<h3 id="{{ item.id }}">{{ item.id }}: {{ item.title }}</h3>
{%- if not item.picture %}
<div class="wide"><table>
<tr>{% for head in item.header %}<th>{{ head }}</th>{% endfor %}</tr>
{%- for line in item.lines %}
<tr>{% for cell in line %}<td{% if cell in lacking %} class="lacking"{% endif %}>{{ cell }}</td>
{%- endfor %}</tr>
{%- endfor %}
</table></div>
{%- else %}
<figure><img alt="{{ item.title }}" src="data:image/png;base64,{{ item.picture }}"></figure>
{%- endif %}
<p class="muted">{{ item.caption }} {{ item.coverage }}. Raw numbers and runs:
{%- for file in item.files %} <a href="{{ file }}">{{ file.split('/')[-1] }}</a>{% endfor %}</p>
{%- endfor %}
{%- endfor %}

<h2 id="coverage">Coverage</h2>
<p>Cells with records, of all cells that the papers show (whole grids and sweeps; seeds do not count apart):
{{ total[0] }} of {{ total[1] }}. Additions of ours are listed and not counted.</p>
<table>
<tr><th>artefact</th><th>cells measured</th><th>cells defined</th>
<th>methods measured</th><th>methods defined</th><th>without a cell</th></tr>
{%- for one in coverages %}
<tr><td>{{ one.artefact }}{% if one.addition %} <small>(addition)</small>{% endif %}</td>
<td>{{ one.measured }}</td><td>{{ one.defined }}</td>
<td>{{ one.methods - one.missing|length }}</td><td>{{ one.methods }}</td>
<td>{{ one.missing|join(', ') }}</td></tr>
{%- endfor %}
</table>

<h2 id="deviations">Deviations from the published settings</h2>
{%- if deviations is none %}
<p class="muted">{{ no_deviations }}</p>
{%- else %}
<div class="wide"><table class="text">
<tr><th>key</th><th>here</th><th>published</th><th>source</th></tr>
{%- for key, here, published, source in deviations %}
<tr><td><code>{{ key }}</code></td><td>{{ here }}</td><td>{{ published }}</td><td>{{ source }}</td></tr>
{%- endfor %}
</table></div>
{%- endif %}

{%- if settings %}
<h2 id="settings">Tables of settings</h2>
<p>Tables of the papers that hold settings and no results, beside params/paper.yaml. What this scale does otherwise stands above.</p>
{%- for table in settings %}
<h3>{{ table.id }}: {{ table.title }}</h3>
<p class="muted">{{ table.tally() }}.</p>
<details><summary>{{ table.settings|length }} settings</summary>
<div class="wide"><table class="text">
<tr><th>row</th><th>setting</th><th>printed</th><th>here</th><th></th><th>key</th></tr>
{%- for one in table.settings %}
<tr>{% for cell in one.cells() %}<td>{{ cell }}</td>{% endfor %}</tr>
{%- endfor %}
</table></div></details>
{%- endfor %}
{%- endif %}

<h2 id="errata">Errata</h2>
<p>Formulas that are printed and do not hold, or hold for less than they suggest: the small print below a
place says which. Each has a test of the counter-example and of the corrected form.</p>
<div class="wide"><table class="text">
<tr><th>id</th><th>place</th><th>printed</th><th>corrected</th><th>tests</th></tr>
{%- for paper, some in errata.items() %}
<tr><th colspan="5">{{ paper }}</th></tr>
{%- for id, one in some.items() %}
<tr><td>{{ id }}</td><td>{{ one.place }}<br><small>{{ one.status }}</small></td>
<td>{{ one.printed }}<br><small>{{ one.counter_example }}</small></td><td>{{ one.corrected }}</td>
<td>{% for test in one.tests.values() %}<code>{{ test.split('::')[-1] }}</code><br>{% endfor %}</td></tr>
{%- endfor %}
{%- endfor %}
</table></div>

<h2 id="cost">Cost</h2>
<table>
<tr><th>step</th><th>runs</th><th>wall, s</th><th>CPU, s</th><th>device, s</th><th>peak memory, MiB</th></tr>
{%- for one in costs %}
<tr><td>{{ one.step }}</td><td>{{ one.runs }}</td><td>{{ '%.1f'|format(one.wall_s) }}</td>
<td>{{ '%.1f'|format(one.cpu_s) }}</td><td>{{ '%.1f'|format(one.device_s) }}</td>
<td>{{ '%.0f'|format(one.peak_memory_bytes / 1048576) }}</td></tr>
{%- endfor %}
</table>
</body>
</html>
"""
