# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DATA   := .data

.DEFAULT_GOAL := help
.PHONY: help check hadoop demo test data mxnet bench drill lint format types protocol reference clean

help:           ## what there is
	@grep -E '^[a-z]+: .*##|^[a-z]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

check:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	  || { echo "Python 3.10 to 3.13 is needed, '$(PYTHON)' is not that: apt-get install python3 python3-venv, or make PYTHON=/path/to/python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 1; }

hadoop:
	@command -v java >/dev/null || { echo "java is missing: apt-get install openjdk-17-jre-headless" >&2; exit 1; }
	@command -v mvn >/dev/null || { echo "mvn is missing: apt-get install maven" >&2; exit 1; }

$(VENV)/ready: pyproject.toml
	@$(MAKE) --no-print-directory check
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip setuptools wheel
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: hadoop $(VENV)/ready data    ## train on real flights on a real YARN and HDFS on this machine
	@$(BIN)/python specs/demo.py --data $(DATA)/flights

data: $(VENV)/ready         ## make the flights task in .data/ (again and again without harm)
	@$(BIN)/python specs/flights_data.py $(DATA)/flights

mxnet: $(VENV)/ready        ## MXNet and handwritten digits for the specs that need them, in .data/
	@$(BIN)/python specs/mxnet_venv.py $(DATA)/mxnet
	@$(BIN)/python specs/digits_data.py $(DATA)/digits.npz

test: hadoop $(VENV)/ready data    ## all tests: units, local jobs, real YARN and HDFS, a real browser
	$(BIN)/python -m pytest -p tests.two_rooms -n 2 --no-loadscope-reorder $(TESTS)

bench: hadoop $(VENV)/ready data mxnet   ## side by side with peers, in one run; prints ratios
	$(BIN)/python -m bench

drill: hadoop $(VENV)/ready data mxnet   ## long, repeated kill runs; writes docs/drill*.md
	$(BIN)/python -m bench.drill --data $(DATA)/flights --report docs/drill.md
	$(BIN)/python -m bench.drill --data $(DATA)/flights --mode bsp --seed 0 --runs 6 --report docs/drill-bsp-local.md
	$(BIN)/python -m bench.drill --data $(DATA)/flights --mode bsp --seed 0 --runs 5 --cluster sandbox --report docs/drill-bsp.md
	$(BIN)/python -m bench.drill_dmlc --cluster sandbox --report docs/drill-dmlc.md

lint: $(VENV)/ready types   ## ruff (format included) and mypy strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy does not see the mapped packages of an editable install: it gets an environment of its own.
types: $(VENV)/ready        ## mypy strict on the installed packages
	@test -d $(VENV)-types || $(PYTHON) -m venv $(VENV)-types
	@rm -rf build
	$(VENV)-types/bin/python -m pip install --quiet --upgrade pip setuptools wheel
	$(VENV)-types/bin/python -m pip install --quiet --force-reinstall --no-deps .
	$(VENV)-types/bin/python -m pip install --quiet '.[dev]'
	cd $(VENV)-types && bin/mypy --config-file ../pyproject.toml -p yarnps

format: $(VENV)/ready       ## put the code in form
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

protocol:                   ## generate the messages (with a generator that old runtimes accept, too)
	$(PYTHON) -m venv $(VENV)-protocol
	$(VENV)-protocol/bin/python -m pip install --quiet 'grpcio-tools==1.72.2'
	$(VENV)-protocol/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. yarnps/protocol/control.proto yarnps/pslite/wire.proto

reference: $(VENV)/ready    ## generate docs/job-file.md
	$(BIN)/python -m yarnps.spec.reference > docs/job-file.md

clean:          ## what was built or downloaded into this folder
	rm -rf $(VENV) $(VENV)-types $(VENV)-protocol $(DATA) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
