"""`yarn`, `hdfs` and `hadoop`: what other clients of the sandbox expect to find on PATH."""

from __future__ import annotations

import shlex

from yarnps.client.sandbox._conf import CLIENT
from yarnps.client.sandbox._daemons import jvm_options
from yarnps.client.sandbox._java import Java
from yarnps.client.sandbox._state import Layout, State

HEAD = """\
#!/bin/sh
# Of the yarnps sandbox in {home}.
conf="${{HADOOP_CONF_DIR:-{conf}}}"
run() {{
  main=$1; shift
  exec {java} -Xmx512m {options} -Dlog4j.configuration="file:$conf/log4j.properties" \\
    -cp "$conf:{classes}:{jars}/*" "$main" "$@"
}}
print_classpath() {{
  if [ "$1" = --glob ]; then
    printf '%s:%s' "$conf" {classes}
    for jar in {jars}/*.jar; do printf ':%s' "$jar"; done
    echo
  else
    echo "$conf:{classes}:{jars}/*"
  fi
}}
verb=$1
[ $# -gt 0 ] && shift
case "$verb" in
  classpath) print_classpath "$@" ;;
  version) run org.apache.hadoop.util.VersionInfo ;;
"""
TAIL = """\
  *) echo "usage: {name} {verbs}" >&2; exit 2 ;;
esac
"""

YARN = "org.apache.hadoop.yarn.client.cli"
# Command -> verbs as a shell pattern, main class, and what stands before the arguments.
VERBS = {
    "yarn": (
        ("logs", f"{YARN}.LogsCLI", ""),
        ("app", f"{YARN}.ApplicationCLI", "application"),
        ("application|applicationattempt|container", f"{YARN}.ApplicationCLI", '"$verb"'),
        ("node", f"{YARN}.NodeCLI", ""),
        ("queue", f"{YARN}.QueueCLI", ""),
        ("cluster", f"{YARN}.ClusterCLI", ""),
        ("rmadmin", f"{YARN}.RMAdminCLI", ""),
    ),
    "hdfs": (
        ("dfs", "org.apache.hadoop.fs.FsShell", ""),
        ("getconf", "org.apache.hadoop.hdfs.tools.GetConf", ""),
        ("dfsadmin", "org.apache.hadoop.hdfs.tools.DFSAdmin", ""),
        ("fsck", "org.apache.hadoop.hdfs.tools.DFSck", ""),
    ),
    "hadoop": (("fs", "org.apache.hadoop.fs.FsShell", ""),),
}


def write_scripts(layout: Layout, state: State, java: Java) -> None:
    """Write the three scripts into the home's `bin`."""
    layout.scripts.mkdir(parents=True, exist_ok=True)
    for name, verbs in VERBS.items():
        head = HEAD.format(
            home=layout.home,
            conf=layout.conf(CLIENT),
            java=shlex.quote(str(java.program)),
            options=" ".join(jvm_options(java)),
            classes=f"{state.hadoop}/classes",
            jars=f"{state.hadoop}/lib",
        )
        cases = [
            f'  {pattern}) run {" ".join((main, before)).strip()} "$@" ;;\n'
            for pattern, main, before in verbs
        ]
        known = "|".join(["classpath", "version", *(pattern for pattern, _, _ in verbs)])
        script = layout.scripts / name
        script.write_text(head + "".join(cases) + TAIL.format(name=name, verbs=known))
        script.chmod(0o755)
