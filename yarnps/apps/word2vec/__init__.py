"""Vectors of words (Mikolov et al., 2013) on the parameter server, `app: word2vec`.

==================  =============================================================================
``_vocabulary``     which words there are: counted by split, merged by every worker
``_blocks``         text to numbers: subsampling, negative samples, the rows that a block needs
``_kernel``         the arithmetic of skip-gram and CBOW on one block
``_train``          the worker: blocks in, rows pulled, changes pushed
``_evaluate``       similarity and analogy files, with the meaning that gensim gives them
``vectors``         word2vec's file formats, and the words nearest to one
``finish``          adds those files to the model that the servers have written
==================  =============================================================================

The tables ``input`` and ``output`` hold a row for each word, under `hash64` of it: so a model can
be trained on with another text (`model.init_from`), whatever its vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yarnps import Job

INPUT, OUTPUT = "input", "output"


def train(job: Job) -> None:
    """Train until the job's input has ended; called in each worker."""
    from yarnps.apps.word2vec._train import train as run

    run(job)
