"""`yarnps launch`: ps-lite programs started as `launch.py` and `dmlc-submit` did.

=============  =====================================================================================
`options`      the command line of both, read into one record
`plan`         which processes that means, and what each finds in its environment
`places`       what the launchers have in common: start processes, hear of their lines and ends
`local` …      one module per launcher: local, ssh, mpi, sge
`meeting`      what the processes come to: ps-lite's scheduler (`pslite`), or Rabit's tracker
`session`      the processes from their start to their end
`yarn`         the job file for YARN
=============  =====================================================================================
"""
