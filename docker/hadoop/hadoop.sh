#!/bin/sh
# `hadoop`, `hdfs` and `yarn` of a small Hadoop: what its containers and yarnps need, no more.
set -eu
home="${HADOOP_HOME:-/opt/hadoop}"
conf="${HADOOP_CONF_DIR:-$home/conf}"
data="${HADOOP_DATA:-/data}"
java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
opens=""
for package in lang util util.concurrent net io nio; do
  opens="$opens --add-opens=java.base/java.$package=ALL-UNNAMED"
done

run() {
  # shellcheck disable=SC2086
  exec "$java" -Xmx"${HADOOP_HEAP_MB:-512}"m $opens -Djava.net.preferIPv4Stack=true \
    -Dlog4j.configuration="file:$conf/log4j.properties" -cp "$conf:$home/classes:$home/lib/*" "$@"
}

classpath() {
  if [ "${1:-}" = --glob ]; then
    printf '%s:%s' "$conf" "$home/classes"
    for jar in "$home"/lib/*.jar; do printf ':%s' "$jar"; done
    echo
  else
    echo "$conf:$home/classes:$home/lib/*"
  fi
}

cli=org.apache.hadoop.yarn.client.cli
hdfs=org.apache.hadoop.hdfs
server=org.apache.hadoop.yarn.server
name="$(basename "$0")"
verb="${1:-}"
[ $# -eq 0 ] || shift
case "$name $verb" in
  *" classpath") classpath "$@" ;;
  *" version") run org.apache.hadoop.util.VersionInfo ;;
  "hdfs dfs" | "hadoop fs") run org.apache.hadoop.fs.FsShell "$@" ;;
  "hdfs dfsadmin") run $hdfs.tools.DFSAdmin "$@" ;;
  "hdfs namenode")
    if [ ! -d "$data/name/current" ]; then
      (run $hdfs.server.namenode.NameNode -format -nonInteractive)
    fi
    run $hdfs.server.namenode.NameNode "$@" ;;
  "hdfs datanode") run $hdfs.server.datanode.DataNode "$@" ;;
  "yarn resourcemanager") run $server.resourcemanager.ResourceManager "$@" ;;
  "yarn nodemanager") run $server.nodemanager.NodeManager "$@" ;;
  "yarn logs") run $cli.LogsCLI "$@" ;;
  "yarn app" | "yarn application") run $cli.ApplicationCLI application "$@" ;;
  "yarn node") run $cli.NodeCLI "$@" ;;
  *) echo "$name: no such command here: $verb" >&2; exit 2 ;;
esac
