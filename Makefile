# Two commands from a fresh clone: `make demo` (the main job, small) and `make test` (the default tests).
# Each sets up what it needs in .venv first; `make check` lints and type-checks; CONTRIBUTING.md says more.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check docs test-base format clean

demo: $(READY)
	$(BIN)/ident3d doctor
	$(BIN)/ident3d render --n 5000 --size 64 --fix rotation=0 --out demo/train
	$(BIN)/ident3d render --n 1024 --size 64 --fix rotation=0 --split test --out demo/test
	$(BIN)/ident3d verify demo/train
	$(BIN)/ident3d preview demo/train --with-latents --out demo/train.png
	$(BIN)/ident3d pairs demo/train --out demo/pairs.png
	$(BIN)/ident3d train demo/train --out demo/run --resume --encoder conv --size 32 --batch 256 \
	    --steps 1600 --lr 2e-3 --schedule onecycle --save-every 250
	@echo
	@echo "Open demo/run/report.html in a browser: what the encoder has found, and what to try next."
	@echo "demo/train.png shows images with their latents, demo/pairs.png how wide the pairs are."
	@echo "Then try, each in minutes:"
	@echo "  $(BIN)/ident3d train demo/train --supervised --encoder conv --size 32 --batch 256 --steps 1600 --lr 2e-3 --schedule onecycle"
	@echo "      the ceiling: the same encoder, taught the latents themselves"
	@echo "  $(BIN)/ident3d traverse --help     one latent at a time, in pictures"
	@echo "  $(BIN)/ident3d mixing --encoder 256x2 --whiten --bound match --batch 256 --lr 2e-3 --schedule cosine --steps 4000"
	@echo "      the same question without images"
	@echo "docs/tutorial/3-train-and-read-the-report.md explains the report."

# Two files of tests at a time, the slowest named at the end; make test ARGS='-n 0 …' runs one after the other, and shows what a test
# prints with -s; ARGS=--cov= measures coverage. One thread each: more would wait for the other's cores
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --durations 20 --durations-min 5 $(ARGS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	tools/typecheck
	$(BIN)/pytest -q -p no:randomly tests/test_import_rules.py tests/test_docs.py
	$(BIN)/yamllint --strict .github mkdocs.yml CITATION.cff
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff
	$(MAKE) docs

# The documentation site, into site/: a broken link, or a public name that cannot be found, fails
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The base install alone (no bpy, numpy 2), on Python 3.11 or newer: make test-base PYTHON=python3.13
test-base:
	tools/test-base $(PYTHON)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml constraints.txt tools/setup
	tools/setup $(VENV)
	touch $(READY)

clean:
	rm -rf $(VENV) .venv-base .build build dist site *.egg-info
