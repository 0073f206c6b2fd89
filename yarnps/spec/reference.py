"""Prints the reference of the job file: `python -m yarnps.spec.reference > docs/job-file.md`."""

import sys

from yarnps.spec import reference

if __name__ == "__main__":
    sys.stdout.write(reference())
