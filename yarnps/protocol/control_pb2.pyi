from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Incarnation(_message.Message):
    __slots__ = ("container", "start", "id", "process")
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    container: str
    start: int
    id: int
    process: int
    def __init__(self, container: _Optional[str] = ..., start: _Optional[int] = ..., id: _Optional[int] = ..., process: _Optional[int] = ...) -> None: ...

class FromAgent(_message.Message):
    __slots__ = ("register", "heartbeat", "role_started", "role_exited", "role")
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ROLE_STARTED_FIELD_NUMBER: _ClassVar[int]
    ROLE_EXITED_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    register: Register
    heartbeat: Heartbeat
    role_started: RoleStarted
    role_exited: RoleExited
    role: RoleSays
    def __init__(self, register: _Optional[_Union[Register, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., role_started: _Optional[_Union[RoleStarted, _Mapping]] = ..., role_exited: _Optional[_Union[RoleExited, _Mapping]] = ..., role: _Optional[_Union[RoleSays, _Mapping]] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("container", "role", "rank", "nonce", "host", "address", "version", "pid", "running", "log_dir", "am_host")
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    LOG_DIR_FIELD_NUMBER: _ClassVar[int]
    AM_HOST_FIELD_NUMBER: _ClassVar[int]
    container: str
    role: str
    rank: int
    nonce: str
    host: str
    address: str
    version: str
    pid: int
    running: _containers.RepeatedCompositeFieldContainer[Incarnation]
    log_dir: str
    am_host: str
    def __init__(self, container: _Optional[str] = ..., role: _Optional[str] = ..., rank: _Optional[int] = ..., nonce: _Optional[str] = ..., host: _Optional[str] = ..., address: _Optional[str] = ..., version: _Optional[str] = ..., pid: _Optional[int] = ..., running: _Optional[_Iterable[_Union[Incarnation, _Mapping]]] = ..., log_dir: _Optional[str] = ..., am_host: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("usage",)
    USAGE_FIELD_NUMBER: _ClassVar[int]
    usage: _containers.RepeatedCompositeFieldContainer[ProcessUsage]
    def __init__(self, usage: _Optional[_Iterable[_Union[ProcessUsage, _Mapping]]] = ...) -> None: ...

class ProcessUsage(_message.Message):
    __slots__ = ("incarnation", "cpu_percent", "memory_bytes", "memory_peak_bytes")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    CPU_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    incarnation: Incarnation
    cpu_percent: float
    memory_bytes: int
    memory_peak_bytes: int
    def __init__(self, incarnation: _Optional[_Union[Incarnation, _Mapping]] = ..., cpu_percent: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., memory_peak_bytes: _Optional[int] = ...) -> None: ...

class RoleStarted(_message.Message):
    __slots__ = ("incarnation", "pid")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    incarnation: Incarnation
    pid: int
    def __init__(self, incarnation: _Optional[_Union[Incarnation, _Mapping]] = ..., pid: _Optional[int] = ...) -> None: ...

class RoleExited(_message.Message):
    __slots__ = ("incarnation", "exit_code", "output_tail", "restarting", "ordered", "leaving")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TAIL_FIELD_NUMBER: _ClassVar[int]
    RESTARTING_FIELD_NUMBER: _ClassVar[int]
    ORDERED_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    incarnation: Incarnation
    exit_code: int
    output_tail: str
    restarting: bool
    ordered: bool
    leaving: bool
    def __init__(self, incarnation: _Optional[_Union[Incarnation, _Mapping]] = ..., exit_code: _Optional[int] = ..., output_tail: _Optional[str] = ..., restarting: bool = ..., ordered: bool = ..., leaving: bool = ...) -> None: ...

class RoleSays(_message.Message):
    __slots__ = ("incarnation", "message")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    incarnation: Incarnation
    message: FromRole
    def __init__(self, incarnation: _Optional[_Union[Incarnation, _Mapping]] = ..., message: _Optional[_Union[FromRole, _Mapping]] = ...) -> None: ...

class ToAgent(_message.Message):
    __slots__ = ("welcome", "period", "start", "stop", "exit", "role", "refused")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    period: HeartbeatPeriod
    start: StartRole
    stop: StopRole
    exit: Exit
    role: ToRoleOf
    refused: Refused
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., period: _Optional[_Union[HeartbeatPeriod, _Mapping]] = ..., start: _Optional[_Union[StartRole, _Mapping]] = ..., stop: _Optional[_Union[StopRole, _Mapping]] = ..., exit: _Optional[_Union[Exit, _Mapping]] = ..., role: _Optional[_Union[ToRoleOf, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("heartbeat_s", "am_silence_s", "restarts_per_minute", "attempt")
    HEARTBEAT_S_FIELD_NUMBER: _ClassVar[int]
    AM_SILENCE_S_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    heartbeat_s: float
    am_silence_s: float
    restarts_per_minute: int
    attempt: int
    def __init__(self, heartbeat_s: _Optional[float] = ..., am_silence_s: _Optional[float] = ..., restarts_per_minute: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class HeartbeatPeriod(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    def __init__(self, seconds: _Optional[float] = ...) -> None: ...

class StartRole(_message.Message):
    __slots__ = ("command", "env", "processes", "restart", "unset", "hadoop")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    UNSET_FIELD_NUMBER: _ClassVar[int]
    HADOOP_FIELD_NUMBER: _ClassVar[int]
    command: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    processes: int
    restart: bool
    unset: _containers.RepeatedScalarFieldContainer[str]
    hadoop: bool
    def __init__(self, command: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., processes: _Optional[int] = ..., restart: bool = ..., unset: _Optional[_Iterable[str]] = ..., hadoop: bool = ...) -> None: ...

class StopRole(_message.Message):
    __slots__ = ("reason", "grace_s")
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    reason: str
    grace_s: float
    def __init__(self, reason: _Optional[str] = ..., grace_s: _Optional[float] = ...) -> None: ...

class Exit(_message.Message):
    __slots__ = ("reason", "exit_code")
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    exit_code: int
    def __init__(self, reason: _Optional[str] = ..., exit_code: _Optional[int] = ...) -> None: ...

class ToRoleOf(_message.Message):
    __slots__ = ("process", "message")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    process: int
    message: ToRole
    def __init__(self, process: _Optional[int] = ..., message: _Optional[_Union[ToRole, _Mapping]] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class FromRole(_message.Message):
    __slots__ = ("hello", "server_ready", "want", "progress", "split_failed", "report", "failed", "stats", "save_done", "export_done", "finished", "first_push", "event", "step_held")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SERVER_READY_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FAILED_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    SAVE_DONE_FIELD_NUMBER: _ClassVar[int]
    EXPORT_DONE_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    FIRST_PUSH_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    STEP_HELD_FIELD_NUMBER: _ClassVar[int]
    hello: RoleHello
    server_ready: ServerReady
    want: WantLeases
    progress: Progress
    split_failed: SplitFailed
    report: Report
    failed: RoleFailed
    stats: Stats
    save_done: SaveDone
    export_done: ExportDone
    finished: Finished
    first_push: FirstPush
    event: RoleEvent
    step_held: StepHeld
    def __init__(self, hello: _Optional[_Union[RoleHello, _Mapping]] = ..., server_ready: _Optional[_Union[ServerReady, _Mapping]] = ..., want: _Optional[_Union[WantLeases, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., split_failed: _Optional[_Union[SplitFailed, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., failed: _Optional[_Union[RoleFailed, _Mapping]] = ..., stats: _Optional[_Union[Stats, _Mapping]] = ..., save_done: _Optional[_Union[SaveDone, _Mapping]] = ..., export_done: _Optional[_Union[ExportDone, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., first_push: _Optional[_Union[FirstPush, _Mapping]] = ..., event: _Optional[_Union[RoleEvent, _Mapping]] = ..., step_held: _Optional[_Union[StepHeld, _Mapping]] = ...) -> None: ...

class RoleHello(_message.Message):
    __slots__ = ("pid", "resync", "held")
    PID_FIELD_NUMBER: _ClassVar[int]
    RESYNC_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    pid: int
    resync: bool
    held: _containers.RepeatedCompositeFieldContainer[Progress]
    def __init__(self, pid: _Optional[int] = ..., resync: bool = ..., held: _Optional[_Iterable[_Union[Progress, _Mapping]]] = ...) -> None: ...

class ServerReady(_message.Message):
    __slots__ = ("address", "loaded_cut")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LOADED_CUT_FIELD_NUMBER: _ClassVar[int]
    address: str
    loaded_cut: int
    def __init__(self, address: _Optional[str] = ..., loaded_cut: _Optional[int] = ...) -> None: ...

class WantLeases(_message.Message):
    __slots__ = ("count", "idle")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    count: int
    idle: bool
    def __init__(self, count: _Optional[int] = ..., idle: bool = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("epoch", "phase", "split", "token", "batches", "rows", "bytes", "bad_records", "done", "bad", "sums", "part")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BAD_RECORDS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    BAD_FIELD_NUMBER: _ClassVar[int]
    SUMS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    phase: str
    split: int
    token: int
    batches: int
    rows: int
    bytes: int
    bad_records: int
    done: bool
    bad: _containers.RepeatedCompositeFieldContainer[BadRecord]
    sums: _containers.RepeatedCompositeFieldContainer[Sum]
    part: PartProgress
    def __init__(self, epoch: _Optional[int] = ..., phase: _Optional[str] = ..., split: _Optional[int] = ..., token: _Optional[int] = ..., batches: _Optional[int] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., bad_records: _Optional[int] = ..., done: bool = ..., bad: _Optional[_Iterable[_Union[BadRecord, _Mapping]]] = ..., sums: _Optional[_Iterable[_Union[Sum, _Mapping]]] = ..., part: _Optional[_Union[PartProgress, _Mapping]] = ...) -> None: ...

class PartProgress(_message.Message):
    __slots__ = ("part", "batches", "step", "ended")
    PART_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    part: int
    batches: int
    step: int
    ended: bool
    def __init__(self, part: _Optional[int] = ..., batches: _Optional[int] = ..., step: _Optional[int] = ..., ended: bool = ...) -> None: ...

class BadRecord(_message.Message):
    __slots__ = ("path", "line", "error", "text")
    PATH_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    path: str
    line: int
    error: str
    text: str
    def __init__(self, path: _Optional[str] = ..., line: _Optional[int] = ..., error: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Sum(_message.Message):
    __slots__ = ("name", "values")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, name: _Optional[str] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...

class SplitFailed(_message.Message):
    __slots__ = ("epoch", "phase", "split", "token", "error", "changed")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    phase: str
    split: int
    token: int
    error: str
    changed: bool
    def __init__(self, epoch: _Optional[int] = ..., phase: _Optional[str] = ..., split: _Optional[int] = ..., token: _Optional[int] = ..., error: _Optional[str] = ..., changed: bool = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("values", "epoch")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    values: _containers.ScalarMap[str, float]
    epoch: int
    def __init__(self, values: _Optional[_Mapping[str, float]] = ..., epoch: _Optional[int] = ...) -> None: ...

class RoleFailed(_message.Message):
    __slots__ = ("error", "traceback", "user_error")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    USER_ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    traceback: str
    user_error: bool
    def __init__(self, error: _Optional[str] = ..., traceback: _Optional[str] = ..., user_error: bool = ...) -> None: ...

class Stats(_message.Message):
    __slots__ = ("clock", "rows_per_s", "idle_s", "tables", "pushes", "pulls", "duplicates", "late")
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    ROWS_PER_S_FIELD_NUMBER: _ClassVar[int]
    IDLE_S_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    PUSHES_FIELD_NUMBER: _ClassVar[int]
    PULLS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    clock: int
    rows_per_s: float
    idle_s: float
    tables: _containers.RepeatedCompositeFieldContainer[TableStats]
    pushes: int
    pulls: int
    duplicates: int
    late: int
    def __init__(self, clock: _Optional[int] = ..., rows_per_s: _Optional[float] = ..., idle_s: _Optional[float] = ..., tables: _Optional[_Iterable[_Union[TableStats, _Mapping]]] = ..., pushes: _Optional[int] = ..., pulls: _Optional[int] = ..., duplicates: _Optional[int] = ..., late: _Optional[int] = ...) -> None: ...

class TableStats(_message.Message):
    __slots__ = ("name", "rows", "bytes", "ignored", "evicted", "expired", "waiting", "nonfinite")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    EVICTED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    NONFINITE_FIELD_NUMBER: _ClassVar[int]
    name: str
    rows: int
    bytes: int
    ignored: int
    evicted: int
    expired: int
    waiting: int
    nonfinite: int
    def __init__(self, name: _Optional[str] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., ignored: _Optional[int] = ..., evicted: _Optional[int] = ..., expired: _Optional[int] = ..., waiting: _Optional[int] = ..., nonfinite: _Optional[int] = ...) -> None: ...

class SaveDone(_message.Message):
    __slots__ = ("cut", "error", "files", "seconds", "steps")
    CUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    cut: int
    error: str
    files: _containers.RepeatedCompositeFieldContainer[SavedFile]
    seconds: float
    steps: StepsAt
    def __init__(self, cut: _Optional[int] = ..., error: _Optional[str] = ..., files: _Optional[_Iterable[_Union[SavedFile, _Mapping]]] = ..., seconds: _Optional[float] = ..., steps: _Optional[_Union[StepsAt, _Mapping]] = ...) -> None: ...

class StepsAt(_message.Message):
    __slots__ = ("epoch", "closed", "parts")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    closed: int
    parts: _containers.RepeatedCompositeFieldContainer[PartAt]
    def __init__(self, epoch: _Optional[int] = ..., closed: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[PartAt, _Mapping]]] = ...) -> None: ...

class PartAt(_message.Message):
    __slots__ = ("batches", "ended", "splits")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    batches: int
    ended: bool
    splits: _containers.RepeatedCompositeFieldContainer[SplitAt]
    def __init__(self, batches: _Optional[int] = ..., ended: bool = ..., splits: _Optional[_Iterable[_Union[SplitAt, _Mapping]]] = ...) -> None: ...

class SplitAt(_message.Message):
    __slots__ = ("split", "batches", "rows")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    split: int
    batches: int
    rows: int
    def __init__(self, split: _Optional[int] = ..., batches: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class StepHeld(_message.Message):
    __slots__ = ("cut", "epoch", "step")
    CUT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    cut: int
    epoch: int
    step: int
    def __init__(self, cut: _Optional[int] = ..., epoch: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class SavedFile(_message.Message):
    __slots__ = ("name", "bytes", "rows", "table", "sum")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    name: str
    bytes: int
    rows: int
    table: str
    sum: float
    def __init__(self, name: _Optional[str] = ..., bytes: _Optional[int] = ..., rows: _Optional[int] = ..., table: _Optional[str] = ..., sum: _Optional[float] = ...) -> None: ...

class ExportDone(_message.Message):
    __slots__ = ("path", "error", "files")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    path: str
    error: str
    files: _containers.RepeatedCompositeFieldContainer[SavedFile]
    def __init__(self, path: _Optional[str] = ..., error: _Optional[str] = ..., files: _Optional[_Iterable[_Union[SavedFile, _Mapping]]] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FirstPush(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RoleEvent(_message.Message):
    __slots__ = ("name", "text")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: str
    def __init__(self, name: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ToRole(_message.Message):
    __slots__ = ("begin", "routes", "members", "grant", "revoke", "save", "cut_durable", "export", "end_of_data", "stop", "phase", "am_back", "leaves_clock", "hold")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    REVOKE_FIELD_NUMBER: _ClassVar[int]
    SAVE_FIELD_NUMBER: _ClassVar[int]
    CUT_DURABLE_FIELD_NUMBER: _ClassVar[int]
    EXPORT_FIELD_NUMBER: _ClassVar[int]
    END_OF_DATA_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    AM_BACK_FIELD_NUMBER: _ClassVar[int]
    LEAVES_CLOCK_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    begin: Begin
    routes: Routes
    members: Members
    grant: Grant
    revoke: Revoke
    save: Save
    cut_durable: CutDurable
    export: Export
    end_of_data: EndOfData
    stop: Stop
    phase: Phase
    am_back: AmBack
    leaves_clock: LeavesClock
    hold: Hold
    def __init__(self, begin: _Optional[_Union[Begin, _Mapping]] = ..., routes: _Optional[_Union[Routes, _Mapping]] = ..., members: _Optional[_Union[Members, _Mapping]] = ..., grant: _Optional[_Union[Grant, _Mapping]] = ..., revoke: _Optional[_Union[Revoke, _Mapping]] = ..., save: _Optional[_Union[Save, _Mapping]] = ..., cut_durable: _Optional[_Union[CutDurable, _Mapping]] = ..., export: _Optional[_Union[Export, _Mapping]] = ..., end_of_data: _Optional[_Union[EndOfData, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ..., phase: _Optional[_Union[Phase, _Mapping]] = ..., am_back: _Optional[_Union[AmBack, _Mapping]] = ..., leaves_clock: _Optional[_Union[LeavesClock, _Mapping]] = ..., hold: _Optional[_Union[Hold, _Mapping]] = ...) -> None: ...

class Begin(_message.Message):
    __slots__ = ("application", "job", "attempt", "generation", "rank", "workers", "servers", "incarnation", "job_json", "job_dir", "data_token", "bind_address", "routes", "members", "load", "server_rank", "threads")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    JOB_JSON_FIELD_NUMBER: _ClassVar[int]
    JOB_DIR_FIELD_NUMBER: _ClassVar[int]
    DATA_TOKEN_FIELD_NUMBER: _ClassVar[int]
    BIND_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    SERVER_RANK_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    application: str
    job: int
    attempt: int
    generation: int
    rank: int
    workers: int
    servers: int
    incarnation: Incarnation
    job_json: str
    job_dir: str
    data_token: str
    bind_address: str
    routes: Routes
    members: Members
    load: Load
    server_rank: int
    threads: int
    def __init__(self, application: _Optional[str] = ..., job: _Optional[int] = ..., attempt: _Optional[int] = ..., generation: _Optional[int] = ..., rank: _Optional[int] = ..., workers: _Optional[int] = ..., servers: _Optional[int] = ..., incarnation: _Optional[_Union[Incarnation, _Mapping]] = ..., job_json: _Optional[str] = ..., job_dir: _Optional[str] = ..., data_token: _Optional[str] = ..., bind_address: _Optional[str] = ..., routes: _Optional[_Union[Routes, _Mapping]] = ..., members: _Optional[_Union[Members, _Mapping]] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., server_rank: _Optional[int] = ..., threads: _Optional[int] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("cut", "path", "files", "init_from")
    CUT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    INIT_FROM_FIELD_NUMBER: _ClassVar[int]
    cut: int
    path: str
    files: _containers.RepeatedCompositeFieldContainer[SavedFile]
    init_from: str
    def __init__(self, cut: _Optional[int] = ..., path: _Optional[str] = ..., files: _Optional[_Iterable[_Union[SavedFile, _Mapping]]] = ..., init_from: _Optional[str] = ...) -> None: ...

class Routes(_message.Message):
    __slots__ = ("version", "generation", "servers", "owner")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    version: int
    generation: int
    servers: _containers.RepeatedCompositeFieldContainer[ServerRoute]
    owner: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, version: _Optional[int] = ..., generation: _Optional[int] = ..., servers: _Optional[_Iterable[_Union[ServerRoute, _Mapping]]] = ..., owner: _Optional[_Iterable[int]] = ...) -> None: ...

class ServerRoute(_message.Message):
    __slots__ = ("server_rank", "address", "incarnation")
    SERVER_RANK_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    server_rank: int
    address: str
    incarnation: int
    def __init__(self, server_rank: _Optional[int] = ..., address: _Optional[str] = ..., incarnation: _Optional[int] = ...) -> None: ...

class Members(_message.Message):
    __slots__ = ("version", "incarnations", "outside")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_FIELD_NUMBER: _ClassVar[int]
    version: int
    incarnations: _containers.RepeatedScalarFieldContainer[int]
    outside: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, version: _Optional[int] = ..., incarnations: _Optional[_Iterable[int]] = ..., outside: _Optional[_Iterable[int]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    def __init__(self, leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("epoch", "phase", "split", "token", "from_batch", "from_rows", "input", "begins", "ends", "generation", "part")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    FROM_BATCH_FIELD_NUMBER: _ClassVar[int]
    FROM_ROWS_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    phase: str
    split: SplitInfo
    token: int
    from_batch: int
    from_rows: int
    input: str
    begins: float
    ends: float
    generation: int
    part: PartLease
    def __init__(self, epoch: _Optional[int] = ..., phase: _Optional[str] = ..., split: _Optional[_Union[SplitInfo, _Mapping]] = ..., token: _Optional[int] = ..., from_batch: _Optional[int] = ..., from_rows: _Optional[int] = ..., input: _Optional[str] = ..., begins: _Optional[float] = ..., ends: _Optional[float] = ..., generation: _Optional[int] = ..., part: _Optional[_Union[PartLease, _Mapping]] = ...) -> None: ...

class PartLease(_message.Message):
    __slots__ = ("part", "batches", "step", "splits")
    PART_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    part: int
    batches: int
    step: int
    splits: _containers.RepeatedCompositeFieldContainer[Lease]
    def __init__(self, part: _Optional[int] = ..., batches: _Optional[int] = ..., step: _Optional[int] = ..., splits: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ...) -> None: ...

class SplitInfo(_message.Message):
    __slots__ = ("id", "path", "start", "length", "file_size", "modified_ms", "hosts", "partition")
    class PartitionEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_MS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    id: int
    path: str
    start: int
    length: int
    file_size: int
    modified_ms: int
    hosts: _containers.RepeatedScalarFieldContainer[str]
    partition: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[int] = ..., path: _Optional[str] = ..., start: _Optional[int] = ..., length: _Optional[int] = ..., file_size: _Optional[int] = ..., modified_ms: _Optional[int] = ..., hosts: _Optional[_Iterable[str]] = ..., partition: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Revoke(_message.Message):
    __slots__ = ("epoch", "phase", "split", "token", "part")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    phase: str
    split: int
    token: int
    part: int
    def __init__(self, epoch: _Optional[int] = ..., phase: _Optional[str] = ..., split: _Optional[int] = ..., token: _Optional[int] = ..., part: _Optional[int] = ...) -> None: ...

class Save(_message.Message):
    __slots__ = ("cut", "path", "step", "epoch", "stay")
    CUT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAY_FIELD_NUMBER: _ClassVar[int]
    cut: int
    path: str
    step: int
    epoch: int
    stay: bool
    def __init__(self, cut: _Optional[int] = ..., path: _Optional[str] = ..., step: _Optional[int] = ..., epoch: _Optional[int] = ..., stay: bool = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("cut", "release")
    CUT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    cut: int
    release: bool
    def __init__(self, cut: _Optional[int] = ..., release: bool = ...) -> None: ...

class CutDurable(_message.Message):
    __slots__ = ("cut", "done")
    CUT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    cut: int
    done: _containers.RepeatedCompositeFieldContainer[DoneSplits]
    def __init__(self, cut: _Optional[int] = ..., done: _Optional[_Iterable[_Union[DoneSplits, _Mapping]]] = ...) -> None: ...

class DoneSplits(_message.Message):
    __slots__ = ("epoch", "splits")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    splits: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, epoch: _Optional[int] = ..., splits: _Optional[_Iterable[int]] = ...) -> None: ...

class Export(_message.Message):
    __slots__ = ("path", "tables", "text")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    path: str
    tables: _containers.RepeatedScalarFieldContainer[str]
    text: bool
    def __init__(self, path: _Optional[str] = ..., tables: _Optional[_Iterable[str]] = ..., text: bool = ...) -> None: ...

class EndOfData(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Stop(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Phase(_message.Message):
    __slots__ = ("epoch", "phase")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    phase: str
    def __init__(self, epoch: _Optional[int] = ..., phase: _Optional[str] = ...) -> None: ...

class AmBack(_message.Message):
    __slots__ = ("same_attempt",)
    SAME_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    same_attempt: bool
    def __init__(self, same_attempt: bool = ...) -> None: ...

class LeavesClock(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("events_after",)
    EVENTS_AFTER_FIELD_NUMBER: _ClassVar[int]
    events_after: int
    def __init__(self, events_after: _Optional[int] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class KillRequest(_message.Message):
    __slots__ = ("reason", "user")
    REASON_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    reason: str
    user: str
    def __init__(self, reason: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class KillReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
