"""`yarnps launch`: ps-lite programs started as `launch.py` and `dmlc-submit` did.

=============  =====================================================================================
`options`      the command line of both, read into one record
`plan`         which processes that means, and what each finds in its environment
`places`       what the launchers have in common: start processes, hear of their lines and ends
`local` …      one module per launcher: local, ssh, mpi, sge
`session`      the roles from their start to their end, with the scheduler beside them
`yarn`         the job file for YARN
=============  =====================================================================================
"""
