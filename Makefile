# One command for a student: make grade. All the others: make help.
.DEFAULT_GOAL := help
.PHONY: help setup grade gpu race watch laws hint test check selfcheck starter mutants edits exploits soak classoak slurm gpusoak sanitize pages bench report data release upgrade site FORCE

# Given on the command line only: a variable K or OUT of the shell is somebody else's.
A          =
SUBMISSION = starter
PROFILE    = cpu
OUT        = .grade/latest
K          =
FROM       =
TIMES      = 50
LAW        =
MORE       =
TABLE      =
LEVEL      =

# The first Python that the course runs on; looked for only when .venv has to be made.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$python && break; done)

PY     := .venv/bin/python
STAMP  := .venv/installed.json
CHOICE  = $(foreach name,$(A),--assignment "$(name)")
ONLY    = $(if $(K),-k "$(K)")
# The first line of a recipe that needs what students do not get.
OURS    = $(if $(wildcard tests/grader),,@echo "make $@ belongs to the instructor's repository: what it needs is not in yours." >&2; exit 2)

help: ## this table
	@echo 'make TARGET [A="collectives ..."] [SUBMISSION=starter] [PROFILE=cpu|gpu] [OUT=.grade/latest] [K=words]'
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  A           assignments by name or number; all if empty      SUBMISSION  what to grade'
	@echo '  PROFILE     gpu judges the same laws on GPUs as well         OUT         where the report is written'
	@echo '  K           only tests whose name contains this              PYTHON      which Python makes .venv'
	@echo '  LAW         a law or a task to get a hint for             TIMES       how often soak grades and kills, and how many edits; 50'

setup: $(STAMP) ## make .venv, or bring it up to date (every other target does so first)
	@echo ".venv is ready."

# An environment whose Python is gone is made again, whatever the stamp says.
$(STAMP): pyproject.toml grader/install.py $(wildcard grader/constraints/*.txt) $(if $(wildcard $(PY)),,FORCE)
	@test -n '$(PYTHON)' || { echo 'No Python 3.11, 3.12 or 3.13 was found (tried python3, python3.13, python3.12, python3.11, python).' >&2; \
		echo 'Try: install one, or name it: make setup PYTHON=/path/to/python3.12' >&2; exit 2; }
	@"$(PYTHON)" grader/install.py

grade: $(STAMP) ## grade SUBMISSION: marks, and what to do next
	@$(PY) -m grader.cli grade $(CHOICE) --submission "$(SUBMISSION)" --profile "$(PROFILE)" --out "$(OUT)" $(ONLY); status=$$?; \
	[ $$status -ne 1 ] || echo 'Some laws are still open; make calls that an error, on the next line. It is none.'; exit $$status

gpu: $(STAMP) ## add the GPU stage to the marks in OUT, where a GPU is
	@$(PY) -m grader.cli gpu --out "$(OUT)"

race: $(STAMP) ## race SUBMISSION beside torch's kernels on this machine's GPU: speed marks, apart from the points
	@$(PY) -m grader.cli race $(CHOICE) --submission "$(SUBMISSION)" --out "$(OUT)" --only "$(K)"

watch: $(STAMP) ## grade again whenever a file is saved; what failed last comes first
	@$(PY) -m grader.cli watch $(CHOICE) --submission "$(SUBMISSION)" --out "$(OUT)" $(ONLY)

laws: $(STAMP) ## the laws of A by their ids, for K and LAW, and what may not be used; no hints
	@$(PY) -m grader.cli laws $(CHOICE)

hint: $(STAMP) ## a nudge towards LAW; MORE=1 the concept, MORE=2 nearly the answer
	@$(PY) -m grader.cli hint "$(LAW)" $(if $(filter 1,$(MORE)),-m,$(if $(filter 2,$(MORE)),-mm)) --out "$(OUT)"

test: $(STAMP) ## the project's own tests
	$(OURS)
	@$(PY) -m pytest --numprocesses auto --dist loadfile $(ONLY)

check: $(STAMP) ## lint, strict types, layers of the grader
	$(OURS)
	@failed=0; \
	echo 'ruff:' && $(PY) -m ruff check . || failed=1; \
	echo 'mypy:' && $(PY) -m mypy || failed=1; \
	echo 'import-linter:' && $(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' || failed=1; \
	exit $$failed

selfcheck: $(STAMP) ## prove the course: solutions, starter, mutants, variants
	@$(PY) -m grader.cli selfcheck $(CHOICE)

starter: $(STAMP) ## write starter/ anew from solutions/
	@$(PY) -m grader.cli starter

mutants: $(STAMP) ## run every wrong answer: is it caught, and by the right law?
	@$(PY) -m grader.cli mutants $(CHOICE) $(ONLY)

edits: $(STAMP) ## TIMES random edits of each solution: one that costs no point is a hole in the laws, or means the same
	$(OURS)
	@$(PY) -m tests.soak.edits --times $(TIMES) $(CHOICE)

exploits: $(STAMP) ## grade dishonest submissions: none may gain anything, and nothing of them may be left
	@$(PY) -m grader.cli exploits $(ONLY) $(if $(TABLE),--table "$(TABLE)") $(if $(LEVEL),--level "$(LEVEL)")

soak: $(STAMP) ## grade right answers TIMES times with other seeds, half of them on a busy machine; kill the grader TIMES times
	$(OURS)
	@$(PY) -m tests.soak.grading --times $(TIMES) $(CHOICE)
	@$(PY) -m tests.soak.killed --times $(TIMES)

classoak: $(STAMP) ## grade a synthetic class of 300, again, in every layout, killed twenty times (an hour)
	$(OURS)
	@$(PY) -m tests.soak.whole_class $(or $(CHOICE),-a collectives -a memory_accounting)

slurm: $(STAMP) ## grade a small class on the Slurm that is here (.ci/slurm starts one of two nodes)
	$(OURS)
	@$(PY) -m pytest tests/slurm $(ONLY)

gpusoak: $(STAMP) ## solutions and sampled mutants on this machine's GPUs; nothing may be left there
	$(OURS)
	@$(PY) -m tests.soak.gpu_profile --steps cpu,trial,gpu,mutants,user --out .grade/gpusoak $(CHOICE)

sanitize: $(STAMP) ## the kernels of SUBMISSION under compute-sanitizer (needs a GPU and CUDA's toolkit)
	$(OURS)
	@$(PY) -m tests.soak.sanitize --submission "$(SUBMISSION)"

pages: $(STAMP) ## look at report.html in a headless Chromium; pictures of it in .grade/pages (needs Chromium)
	$(OURS)
	@$(PY) -m pytest tests/pages $(ONLY)

bench: $(STAMP) ## measure a check beside torch.multiprocessing.spawn, in one run
	$(OURS)
	@$(PY) -m pytest tests/benchmarks --benchmark-only $(ONLY)

report: $(STAMP) ## the milestone: climb the ladder with SUBMISSION's pieces; log, notebook and page
	@$(PY) "$(SUBMISSION)/report.py" --out "$(if $(filter command,$(firstword $(origin OUT))),$(OUT),.report)"

data: $(STAMP) ## prepare the embedded corpus and its tokenizer
	@$(PY) -m datasets.prepare

release: $(STAMP) ## build the students' bundle in dist/
	@$(PY) -m grader.cli release

upgrade: $(STAMP) ## take a newer release: make upgrade FROM=its archive
	@$(PY) -m grader.cli upgrade "$(FROM)"

site: $(STAMP) ## build the course's pages in dist/site: handouts, laws, a map of reading and libraries
	@$(PY) -m grader.cli site
