"""Hadoop's configuration files for the daemons, their containers and the clients."""

from __future__ import annotations

import getpass
from pathlib import Path
from xml.sax.saxutils import escape

from yarnps.client.sandbox._state import MASTER, Layout, NodePorts, Settings, State, node_address

CLIENT, MASTER_ROLE = "client", "master"
NODE_EXPIRY_MS = 20_000  # a node that is silent this long is lost
CLIENT_PATIENCE_MS = 10_000  # a client whose resource manager is down says so after this
DAEMON_PATIENCE_MS = 900_000

Properties = dict[str, str | int | float | bool]

LOG4J = """\
log4j.rootLogger={level},console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{{ISO8601}} %p %c{{1}}: %m%n
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
log4j.logger.org.apache.hadoop.metrics2=WARN
log4j.logger.http.requests=WARN
"""


def write_conf(layout: Layout, state: State) -> None:
    """Write one folder for clients, one for the masters and one for each node."""
    patience = {
        # Inside each attempt; a daemon that starts beside its master tries again soon.
        "ipc.client.connect.retry.interval": 200,
        "ipc.client.connect.max.retries": 100,
    }
    hasty = {"ipc.client.connect.retry.interval": 500, "ipc.client.connect.max.retries": 10}
    core, hdfs, yarn = _core(layout, state), _hdfs(layout, state), _yarn(layout, state)
    _write_folder(layout.conf(CLIENT), core | hasty, hdfs, yarn | _waiting(CLIENT_PATIENCE_MS))
    daemon_yarn = yarn | _waiting(DAEMON_PATIENCE_MS)
    master = layout.conf(MASTER_ROLE)
    _write_folder(master, core | patience, hdfs, daemon_yarn | _scheduler(), level="INFO")
    _write_xml(master / "capacity-scheduler.xml", CAPACITY_SCHEDULER)
    for index, ports in enumerate(state.ports.nodes, 1):
        _write_folder(
            layout.conf(f"node-{index}"),
            core | patience,
            hdfs | _data_node(layout, index, ports),
            daemon_yarn | _node_manager(layout, state.settings, index, ports),
            level="INFO",
        )


def _core(layout: Layout, state: State) -> Properties:
    return {
        "fs.defaultFS": f"hdfs://{MASTER}:{state.ports.name}",
        "hadoop.tmp.dir": str(layout.home / "tmp" / "hadoop"),
        # The pages stay open without a login, and act as the user who started the sandbox.
        "hadoop.http.filter.initializers": "org.apache.hadoop.http.lib.StaticUserWebFilter",
        "hadoop.http.staticuser.user": getpass.getuser(),
    }


def _hdfs(layout: Layout, state: State) -> Properties:
    return {
        "dfs.namenode.rpc-address": f"{MASTER}:{state.ports.name}",
        "dfs.namenode.http-address": f"{MASTER}:{state.ports.name_http}",
        "dfs.namenode.name.dir": f"file://{layout.hdfs}/name",
        "dfs.replication": min(2, state.settings.nodes),
        "dfs.namenode.safemode.extension": 0,
        "dfs.namenode.fs-limits.min-block-size": 4096,
        # All data nodes register from 127.0.0.1; their names are the addresses that they serve on.
        "dfs.namenode.datanode.registration.ip-hostname-check": False,
        "dfs.client.use.datanode.hostname": True,
        "dfs.datanode.use.datanode.hostname": True,
        # A data node is dead after 2 rechecks and 10 heartbeats: 20 s, as a node manager is.
        "dfs.heartbeat.interval": 1,
        "dfs.namenode.heartbeat.recheck-interval": 5000,
        "dfs.namenode.stale.datanode.interval": 5000,
        "dfs.namenode.avoid.read.stale.datanode": True,
        "dfs.namenode.avoid.write.stale.datanode": True,
        # With two nodes there is no third to replace a lost one in a write pipeline.
        "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
    }


def _data_node(layout: Layout, index: int, ports: NodePorts) -> Properties:
    address = node_address(index)
    return {
        "dfs.datanode.hostname": address,
        "dfs.datanode.address": f"{address}:{ports.data}",
        "dfs.datanode.ipc.address": f"{address}:{ports.data_ipc}",
        "dfs.datanode.http.address": f"{address}:{ports.data_http}",
        "dfs.datanode.data.dir": f"file://{layout.hdfs}/data-{index}",
        "dfs.datanode.scan.period.hours": -1,
        "dfs.datanode.du.reserved": 0,
    }


def _yarn(layout: Layout, state: State) -> Properties:
    ports, settings, hadoop = state.ports, state.settings, state.hadoop
    return {
        "yarn.resourcemanager.hostname": MASTER,
        "yarn.resourcemanager.address": f"{MASTER}:{ports.rm}",
        "yarn.resourcemanager.scheduler.address": f"{MASTER}:{ports.rm_scheduler}",
        "yarn.resourcemanager.resource-tracker.address": f"{MASTER}:{ports.rm_tracker}",
        "yarn.resourcemanager.admin.address": f"{MASTER}:{ports.rm_admin}",
        "yarn.resourcemanager.webapp.address": f"{MASTER}:{ports.rm_http}",
        "yarn.resourcemanager.am.max-attempts": 4,
        "yarn.resourcemanager.am.global.max-attempts": 4,
        "yarn.nm.liveness-monitor.expiry-interval-ms": NODE_EXPIRY_MS,
        "yarn.am.liveness-monitor.expiry-interval-ms": settings.am_expiry_s * 1000,
        "yarn.scheduler.minimum-allocation-mb": 64,
        "yarn.scheduler.maximum-allocation-mb": settings.node_memory_mb,
        "yarn.scheduler.maximum-allocation-vcores": settings.node_vcores,
        # These two stores are in /tmp by default, shared by all clusters of the user.
        "yarn.node-attribute.fs-store.root-dir": f"file://{layout.home}/tmp/node-attributes",
        "yarn.node-labels.fs-store.root-dir": f"file://{layout.home}/tmp/node-labels",
        "yarn.log-aggregation-enable": True,
        "yarn.log-aggregation.retain-seconds": 86400,
        "yarn.application.classpath": f"$HADOOP_CONF_DIR,{hadoop}/classes,{hadoop}/lib/*",
    }


def _waiting(limit_ms: int) -> Properties:
    return {
        "yarn.resourcemanager.connect.max-wait.ms": limit_ms,
        "yarn.resourcemanager.connect.retry-interval.ms": 1000,
        "yarn.client.nodemanager-connect.max-wait-ms": min(limit_ms, 60_000),
        "yarn.client.nodemanager-connect.retry-interval-ms": 1000,
    }


def _scheduler() -> Properties:
    package = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity"
    threads = ("resource-tracker.client", "scheduler.client", "client", "admin.client")
    return {
        "yarn.resourcemanager.scheduler.class": f"{package}.CapacityScheduler",
        "yarn.resourcemanager.amlauncher.thread-count": 4,
        **{f"yarn.resourcemanager.{name}.thread-count": 8 for name in threads},
    }


CAPACITY_SCHEDULER: Properties = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": 100,
    "yarn.scheduler.capacity.root.default.maximum-capacity": 100,
    "yarn.scheduler.capacity.root.default.state": "RUNNING",
    # The default of 0.1 would keep a small cluster from ever starting an ApplicationMaster.
    "yarn.scheduler.capacity.maximum-am-resource-percent": 0.9,
    # The default calculator looks at memory only: vcores would always be 1.
    "yarn.scheduler.capacity.resource-calculator": (
        "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
    ),
}


def _node_manager(layout: Layout, settings: Settings, index: int, ports: NodePorts) -> Properties:
    address, folder = node_address(index), layout.node(index)
    passed_on = ("JAVA_HOME", "PATH", "HADOOP_CONF_DIR", "LANG", "TZ", *settings.node_env)
    checker = "yarn.nodemanager.disk-health-checker"
    properties: Properties = {
        "yarn.nodemanager.hostname": address,
        "yarn.nodemanager.address": f"{address}:{ports.manager}",
        "yarn.nodemanager.localizer.address": f"{address}:{ports.localizer}",
        "yarn.nodemanager.webapp.address": f"{address}:{ports.manager_http}",
        "yarn.nodemanager.local-dirs": str(folder / "local"),
        "yarn.nodemanager.log-dirs": str(folder / "logs"),
        "yarn.nodemanager.resource.memory-mb": settings.node_memory_mb,
        "yarn.nodemanager.resource.cpu-vcores": settings.node_vcores,
        "yarn.nodemanager.env-whitelist": ",".join(dict.fromkeys(passed_on)),
        "yarn.nodemanager.vmem-check-enabled": False,
        "yarn.nodemanager.pmem-check-enabled": True,
        # By default a node manager leaves memory limits to control groups, also without any.
        "yarn.nodemanager.resource.memory.enforced": False,
        "yarn.nodemanager.container-monitor.interval-ms": 1000,
        "yarn.nodemanager.sleep-delay-before-sigkill.ms": 1000,
        "yarn.nodemanager.delete.debug-delay-sec": 0,
        "yarn.nodemanager.container-manager.thread-count": 8,
        "yarn.nodemanager.localizer.client.thread-count": 4,
        # The disk is the machine's own: that it is nearly full is not this node's illness.
        f"{checker}.max-disk-utilization-per-disk-percentage": 99,
        f"{checker}.min-free-space-per-disk-mb": 0,
    }
    if "HOME" in settings.node_env:
        # Node managers set HOME themselves, after what they pass on.
        properties["yarn.nodemanager.user-home-dir"] = settings.node_env["HOME"]
    return properties


def _write_folder(
    folder: Path, core: Properties, hdfs: Properties, yarn: Properties, *, level: str = "WARN"
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _write_xml(folder / "core-site.xml", core)
    _write_xml(folder / "hdfs-site.xml", hdfs)
    _write_xml(folder / "yarn-site.xml", yarn)
    (folder / "log4j.properties").write_text(LOG4J.format(level=level))


def _write_xml(path: Path, properties: Properties) -> None:
    rows = (
        f"  <property><name>{escape(name)}</name><value>{escape(_text(value))}</value></property>"
        for name, value in properties.items()
    )
    path.write_text("<configuration>\n" + "\n".join(rows) + "\n</configuration>\n")


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
