"""The whole service on this machine: a local AWS and the real template in it.

    .venv/bin/python infra/local_stack.py up        start it and deploy
    .venv/bin/python infra/local_stack.py down      end it and remove its files

`up` starts ministack (a local AWS, IAM enforced) on a free loopback port and runs
`sam deploy` with the `local` environment of samconfig.toml: the same template and
the same tool as in production. Everything it writes lies in one state directory,
so `--state DIR` gives as many stacks side by side as you like. The demo imports
this file as a module; the end-to-end tests call `up --json` and `down`.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import fcntl
import json
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass, field
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
INFRA = REPO / "infra"
RECEIVER = INFRA / "receiver"  # a partner's side, a template of its own
BUILT_TEMPLATE = Path(".aws-sam") / "local" / "template.yaml"  # see samconfig.toml
DEFAULT_STATE = REPO / ".local" / "stack"
# All that a state directory may hold; `down` removes nothing else.
STATE_FILES = {
    "stack.json", "stack.new", "tmp", "home", "sam",
    "emulator.log", "deploy.log", "dispatch.log", "deliver.log",
}

REGION = "eu-central-1"
# Any key that the emulator was started with is the account's root user.
ACCESS_KEY_ID = "LOCALROOT"
SECRET_ACCESS_KEY = "local-secret"
BUCKET = "sqs-webhooks-local-artifacts"

START_SECONDS = 60
STOP_SECONDS = 3
FOLLOW_SECONDS = 1  # between two looks for new log lines; each costs a few percent of a core


class StackError(Exception):
    """Something that the user should read, without a traceback."""


@dataclass
class Stack:
    """A running local stack. `to_json` is what `up --json` prints."""

    endpoint_url: str
    pid: int
    pid_started: str
    state_directory: str
    log_file: str
    stack_name: str = ""
    region: str = REGION
    access_key_id: str = ACCESS_KEY_ID
    secret_access_key: str = SECRET_ACCESS_KEY
    outputs: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict:
        return {
            "endpointUrl": self.endpoint_url,
            "region": self.region,
            "accessKeyId": self.access_key_id,
            "secretAccessKey": self.secret_access_key,
            "stackName": self.stack_name,
            "outputs": self.outputs,
            "pid": self.pid,
            "stateDirectory": self.state_directory,
            "logFile": self.log_file,
        }

    def client(self, service: str):
        """A boto3 client of the emulator; never of real AWS."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            service,
            endpoint_url=self.endpoint_url,
            region_name=self.region,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            config=Config(proxies={}, retries={"max_attempts": 2}),
        )

    # -- what a user of the service does ---------------------------------------

    def register(self, subscriber_id: str, url: str, event_type: str) -> str:
        """Subscribe a partner and return its new signing secret."""
        secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        self.client("ssm").put_parameter(
            Name=f"/{self.outputs['SecretPrefix']}/{subscriber_id}/signing-secret",
            Type="SecureString",
            Value=secret,
            Overwrite=True,
        )
        self.client("dynamodb").put_item(
            TableName=self.outputs["SubscriptionsTableName"],
            Item={
                "eventType": {"S": event_type},
                "subscriberId": {"S": subscriber_id},
                "url": {"S": url},
                "enabled": {"BOOL": True},
            },
        )
        return secret

    def publish(self, file: Path) -> list[str]:
        """PutEvents of the entries in `file` (`-`: standard input); returns the event ids."""
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        entries = json.loads(text)
        for entry in entries:
            entry["EventBusName"] = self.outputs["EventBusName"]
        answer = self.client("events").put_events(Entries=entries)
        failed = [entry for entry in answer["Entries"] if "EventId" not in entry]
        if failed:
            raise StackError(f"EventBridge refused {file.name}: {failed}")
        return [entry["EventId"] for entry in answer["Entries"]]

    def log_events(self, function: str, since: int = 0) -> list[dict]:
        """The log of `dispatch` or `deliver`, oldest first; `since` in ms since 1970."""
        group = self.outputs[f"{function.capitalize()}LogGroupName"]
        logs = self.client("logs")
        pages = logs.get_paginator("filter_log_events").paginate(
            logGroupName=group, startTime=since
        )
        events = [event for page in pages for event in page["events"]]
        return sorted(events, key=lambda event: event["timestamp"])

    def follow_log(self, function: str):
        """The log of a function, and then what is added to it, until the stack ends."""
        from botocore.exceptions import ConnectionError as NoConnection
        from botocore.exceptions import HTTPClientError

        shown: set[tuple] = set()
        newest = 0
        while True:
            try:
                # Invocations that end together may be written in another order.
                events = self.log_events(function, max(0, newest - 5_000))
            except (NoConnection, HTTPClientError):
                return
            for event in events:
                identity = (event["logStreamName"], event["timestamp"], event["message"])
                if identity not in shown:
                    shown.add(identity)
                    newest = max(newest, event["timestamp"])
                    yield event
            time.sleep(FOLLOW_SECONDS)

    def call(self, service: str, operation: str, arguments: dict) -> dict:
        """Any call of any service, for example `lambda`, `GetFunctionConfiguration`."""
        from botocore import xform_name
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = getattr(self.client(service), xform_name(operation))(**arguments)
        except (AttributeError, BotoCoreError, ClientError) as error:
            raise StackError(f"{service} {operation}: {error}") from error
        answer.pop("ResponseMetadata", None)
        return answer


# -- up and down ---------------------------------------------------------------


def say(text: str) -> None:
    """Progress goes to stderr: stdout belongs to `--json`."""
    print(text, file=sys.stderr, flush=True)


def up(
    state: Path = DEFAULT_STATE,
    settings: dict[str, str] | None = None,
    watch_pid: int | None = None,
    say=say,
) -> Stack:
    """Start a stack, or deploy again to the one that runs in this state directory.

    `settings` are template parameters on top of those in samconfig.toml. With
    `watch_pid` the stack ends by itself when that process does.
    """
    if not (INFRA / BUILT_TEMPLATE).exists():
        raise StackError("The functions are not built yet. Run `make build` first.")
    state = state.resolve()
    stack = load(state)
    started_here = stack is None
    try:
        if stack is None:
            stack = _start_emulator(state, watch_pid, say)
        _deploy(stack, settings or {}, say)
        _save(stack)
    except BaseException:
        if started_here:
            # The log stays, everything else goes.
            down(state, keep_log=True)
        raise
    return stack


def down(state: Path = DEFAULT_STATE, keep_log: bool = False) -> bool:
    """End the stack of this state directory. False if there was none."""
    state = state.resolve()
    with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
        saved = Stack(**json.loads((state / "stack.json").read_text()))
        _end_process_group(saved.pid, saved.pid_started)
    if not state.exists():
        return False
    foreign = [entry.name for entry in state.iterdir() if entry.name not in STATE_FILES]
    if foreign:
        raise StackError(f"{state} is not a stack's state directory: it holds {foreign[0]}.")
    for entry in state.iterdir():
        if keep_log and entry.name.endswith(".log"):
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    if not keep_log:
        shutil.rmtree(state, ignore_errors=True)
    return True


def load(state: Path = DEFAULT_STATE) -> Stack | None:
    """The stack that runs in this state directory, if one does."""
    try:
        stack = Stack(**json.loads((state.resolve() / "stack.json").read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return stack if _process_started(stack.pid) == stack.pid_started else None


def _save(stack: Stack) -> None:
    file = Path(stack.state_directory) / "stack.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps(asdict(stack), indent=2))
    new.replace(file)


# -- the emulator ----------------------------------------------------------------


def _start_emulator(state: Path, watch_pid: int | None, say) -> Stack:
    down(state)  # what a killed run may have left
    state.mkdir(parents=True)
    (state / "tmp").mkdir()
    (state / "home").mkdir()
    log_file = state / "emulator.log"
    for _ in range(5):
        port = _free_port()
        say(f"Starting the local AWS on 127.0.0.1:{port}")
        command = [sys.executable, str(Path(__file__).resolve()), "emulator"]
        if watch_pid is not None:
            command += ["--watch-pid", str(watch_pid)]
        with log_file.open("ab") as log:
            process = subprocess.Popen(
                command,
                env=_emulator_env(state, port),
                cwd=state,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A group of its own: the Lambda environments it starts are in it.
                start_new_session=True,
            )
        stack = Stack(
            endpoint_url=f"http://127.0.0.1:{port}",
            pid=process.pid,
            pid_started=_process_started(process.pid),
            state_directory=str(state),
            log_file=str(log_file),
        )
        _save(stack)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if _answers(stack.endpoint_url, process.pid):
                return stack
            time.sleep(0.1)
        if process.poll() is None:
            break
        # It ended: another process was faster to take the port. Another port.
    raise StackError(f"The local AWS did not start. Its log: {log_file}\n{_tail(log_file)}")


def _emulator_env(state: Path, port: int) -> dict[str, str]:
    # Not the caller's whole environment: the functions inherit this one, and a
    # proxy, a profile or real credentials must not reach them.
    env = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return env | {
        "HOME": str(state / "home"),
        "TMPDIR": str(state / "tmp"),
        "STATE_DIR": str(state / "tmp"),
        "S3_DATA_DIR": str(state / "tmp" / "s3"),
        "PYTHONUNBUFFERED": "1",
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        # Also what the functions get: without it they would call real AWS.
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "MINISTACK_REGION": REGION,
        "AUTH": "true",
        "LAMBDA_EXECUTOR": "local",
        "LAMBDA_WARM_TTL_SECONDS": "3600",
        "PERSIST_STATE": "0",
        # It would listen on a fixed port, on every interface.
        "IOT_MTLS_ENABLED": "0",
    }


def run_emulator(watch_pid: int | None) -> None:
    """The emulator's own process (the command `emulator`, started by `up`)."""
    if watch_pid is not None:
        started = _process_started(watch_pid)

        def watch() -> None:
            while started and _process_started(watch_pid) == started:
                time.sleep(1)
            shutil.rmtree(Path.cwd(), ignore_errors=True)
            os.killpg(0, signal.SIGKILL)  # ourselves and the functions

        threading.Thread(target=watch, daemon=True).start()
    from ministack.app import main as ministack_main

    _check_permissions_as_in_aws()
    _evaluate_conditions_as_in_aws()
    _try_events_again_as_in_aws()
    sys.argv = ["ministack"]
    ministack_main()


def _check_permissions_as_in_aws() -> None:
    """Correct two permission checks of the emulator that differ from AWS.

    A template made to pass them would grant too much, or something that does not
    exist, in AWS:
    - IAM has no action sqs:SendMessageBatch; sqs:SendMessage covers the batch call.
    - ssm:GetParameters is checked on every parameter it names, not on "*".
    """
    from ministack.core import iam_actions, iam_evaluator

    class Several(str):
        arns: list[str]

    action_of = iam_actions.extract_iam_action
    resource_of = iam_actions.extract_resource_arn
    enforce_one = iam_evaluator.enforce

    def extract_iam_action(*arguments, **named):
        action = action_of(*arguments, **named)
        return action.removesuffix("Batch") if action and action.startswith("sqs:") else action

    def extract_resource_arn(service, method, path, headers, body, query_params, region, account_id):
        if service == "ssm":
            with contextlib.suppress(ValueError, TypeError, KeyError):
                prefix = f"arn:aws:ssm:{region}:{account_id}:parameter/"
                arns = [prefix + name.lstrip("/") for name in json.loads(body)["Names"]]
                several = Several(arns[0])
                several.arns = arns
                return several
        return resource_of(
            service, method, path, headers, body, query_params, region, account_id
        )

    def enforce(*arguments, resource_arn="*", **named):
        denied = None
        for arn in getattr(resource_arn, "arns", [resource_arn]):
            denied = denied or enforce_one(*arguments, resource_arn=arn, **named)
        return denied

    iam_actions.extract_iam_action = extract_iam_action
    iam_actions.extract_resource_arn = extract_resource_arn
    iam_evaluator.enforce = enforce


def _evaluate_conditions_as_in_aws() -> None:
    """Let a Condition of a template compare the account and the Region.

    The emulator compares the name "AWS::AccountId" itself, so it would take its own
    account for one on AWS and be asked for resources that it does not have.
    """
    from ministack.core.responses import get_account_id, get_region
    from ministack.services.cloudformation import changesets, engine, handlers, stacks

    evaluate = engine._evaluate_conditions

    def evaluate_conditions(template: dict, parameters: dict) -> dict:
        pseudo = {"AWS::AccountId": get_account_id(), "AWS::Region": get_region()}
        known = {name: {"Value": value} for name, value in pseudo.items()}
        return evaluate(template, known | parameters)

    for module in (changesets, engine, handlers, stacks):
        module._evaluate_conditions = evaluate_conditions


def _try_events_again_as_in_aws() -> None:
    """Let an event that its function fails on be tried again, and then end in its failure queue.

    EventBridge invokes a function asynchronously, and Lambda tries such an invocation three
    times in all. The emulator knows that, but hands events over without it, so that an event
    whose `dispatch` fails or dies would be lost.
    """
    from ministack.services import eventbridge, lambda_svc

    hand_over_once = eventbridge._dispatch_to_lambda

    def hand_over(arn: str, payload: str) -> None:
        function, config, _ = lambda_svc._get_func_record_for_ref(arn)
        if not function or not config:
            return hand_over_once(arn, payload)  # which says so in the log
        record = lambda_svc._execution_record_for_config(function, config)
        lambda_svc.invoke_async_with_retry(record, json.loads(payload))

    eventbridge._dispatch_to_lambda = hand_over


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _answers(endpoint_url: str, pid: int) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{endpoint_url}/_ministack/health", timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _process_started(pid: int) -> str:
    """When a process was started; empty if it does not run.

    A pid alone may long belong to somebody else's process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        state, *rest = stat.rpartition(")")[2].split()
        return "" if state == "Z" else rest[18]
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return ""
    except (ProcessLookupError, IndexError):
        return ""
    answer = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()


def _end_process_group(pid: int, started: str) -> None:
    now = _process_started(pid)
    if now and now != started:
        return  # the pid is somebody else's by now, so the group is gone

    def send(sig: int) -> bool:
        try:
            os.killpg(pid, sig)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def reap() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)

    deadline = time.monotonic() + STOP_SECONDS
    running = send(signal.SIGTERM)
    while running and time.monotonic() < deadline:
        time.sleep(0.05)
        reap()
        running = send(0)
    if running:
        send(signal.SIGKILL)
        time.sleep(0.1)
        reap()


def _tail(file: Path, lines: int = 20) -> str:
    with contextlib.suppress(FileNotFoundError):
        return "\n".join(file.read_text(errors="replace").splitlines()[-lines:])
    return ""


# -- build and deploy -------------------------------------------------------------


def architecture() -> str:
    """The value of the template parameter that fits this machine."""
    return "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"


def _sam_parameters(command: str, folder: Path) -> dict:
    """What a command is told by the `local` environment in samconfig.toml."""
    import tomlkit  # comes with aws-sam-cli; tomllib is not in Python 3.10

    config = tomlkit.parse((folder / "samconfig.toml").read_text(encoding="utf-8"))
    return config["local"][command]["parameters"]


def _sam_settings(command: str, folder: Path) -> dict[str, str]:
    """The template parameters among it."""
    pairs = str(_sam_parameters(command, folder)["parameter_overrides"]).split()
    return dict(pair.split("=", 1) for pair in pairs) | {"Architecture": architecture()}


def _run_sam(arguments: list[str], settings: dict[str, str], env: dict[str, str], app_dir: Path,
             log_file: Path | None, folder: Path = INFRA) -> int:
    app_dir.mkdir(parents=True, exist_ok=True)
    # sam asks the package index for newer versions once a week, unless it believes
    # that it has just done so.
    (app_dir / "metadata.json").write_text(
        json.dumps({"telemetryEnabled": False, "lastVersionCheck": time.time()})
    )
    env = env | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", "")]),
        "AWS_DEFAULT_REGION": REGION,
        "SAM_CLI_TELEMETRY": "0",
        "SAM_CLI_POLL_DELAY": "0.3",
        "__SAM_CLI_APP_DIR": str(app_dir),
    }
    command = [str(Path(sys.executable).with_name("sam")), *arguments]
    command += ["--config-file", str(folder / "samconfig.toml"), "--config-env", "local"]
    command += ["--parameter-overrides", *(f"{name}={value}" for name, value in settings.items())]
    output = log_file.open("ab") if log_file else contextlib.nullcontext(sys.stderr)
    with output as out:
        return subprocess.run(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        ).returncode


@contextlib.contextmanager
def _build_lock(exclusive: bool):
    """Nobody may lay out a new build while somebody else deploys the last one."""
    lock = REPO / ".local" / "build.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield


def build(with_receiver: bool = False) -> None:
    """Compile the functions for this machine and lay them out for `sam deploy`."""
    with _build_lock(exclusive=True):
        _build(with_receiver)


def _build(with_receiver: bool) -> None:
    import tomlkit

    # cargo-lambda builds with panic = "abort" unless the workspace names another
    # value. A panic in one record would then end the whole batch.
    manifest = tomlkit.parse((REPO / "Cargo.toml").read_text(encoding="utf-8"))
    if manifest.get("profile", {}).get("release", {}).get("panic") != "unwind":
        raise StackError('Cargo.toml: [profile.release] must say panic = "unwind".')
    env = dict(os.environ)
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", "")])
    # sam would do it too, but without showing cargo's progress for some minutes.
    # It then finds everything compiled.
    names = ["dispatch", "deliver"] + ["receiver"] * with_receiver
    command = ["cargo", "lambda", "build", "--release"]
    command += [word for name in names for word in ("--bin", name)]
    compiled = subprocess.run(command, cwd=REPO, env=env, check=False)
    if compiled.returncode != 0:
        raise StackError("The functions do not compile; see above.")
    log = REPO / ".local" / "sam-build.log"
    log.unlink(missing_ok=True)
    for folder in [INFRA] + [RECEIVER] * with_receiver:
        settings = _sam_settings("build", folder)
        if _run_sam(["build"], settings, env, REPO / ".local" / "sam", log, folder) != 0:
            raise StackError(f"`sam build` failed:\n{_tail(log, 40)}")


def _deploy(stack: Stack, settings: dict[str, str], say) -> None:
    stack.stack_name = str(_sam_parameters("global", INFRA)["stack_name"])
    stack.outputs = _deploy_template(stack, INFRA, settings, say)
    # The emulator keeps a number that comes from a parameter as text and then cannot
    # compare it; AWS converts it. Say it again as a number.
    functions = stack.client("lambda")
    for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
        functions.update_event_source_mapping(
            UUID=mapping["UUID"], ScalingConfig=mapping["ScalingConfig"]
        )


def deploy_receiver(stack: Stack, say=say) -> dict[str, str]:
    """Deploy a partner's receiver beside the service; returns its outputs and `LocalUrl`."""
    if not (RECEIVER / BUILT_TEMPLATE).exists():
        raise StackError("The receiver is not built. Run `local_stack.py build --with-receiver`.")
    outputs = _deploy_template(stack, RECEIVER, {}, say)
    # No name server knows the host of a function URL here; the emulator knows its path.
    url_id = outputs["Url"].removeprefix("https://").partition(".")[0]
    return outputs | {"LocalUrl": f"{stack.endpoint_url}/_aws/lambda-url/{url_id}/"}


def _deploy_template(stack: Stack, folder: Path, settings: dict[str, str], say) -> dict[str, str]:
    """Deploy the template in `folder`; returns its outputs."""
    state = Path(stack.state_directory)
    s3 = stack.client("s3")
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    say(f"Deploying {(folder / 'template.yaml').relative_to(REPO)} with `sam deploy`")
    env = _emulator_env(state, int(stack.endpoint_url.rpartition(":")[2]))
    log = state / "deploy.log"
    with _build_lock(exclusive=False):
        code = _run_sam(
            ["deploy", "--s3-bucket", BUCKET], _sam_settings("deploy", folder) | settings, env,
            state / "sam", log, folder,
        )
    cloudformation = stack.client("cloudformation")
    stack_name = str(_sam_parameters("global", folder)["stack_name"])
    if code != 0:
        raise StackError(
            f"`sam deploy` failed. Its log: {log}\n"
            + (_failed_resources(cloudformation, stack_name) or _tail(log))
        )
    described = cloudformation.describe_stacks(StackName=stack_name)["Stacks"][0]
    return {o["OutputKey"]: o["OutputValue"] for o in described.get("Outputs", [])}


def _failed_resources(cloudformation, stack_name: str) -> str:
    try:
        events = cloudformation.describe_stack_events(StackName=stack_name)["StackEvents"]
    except Exception:  # the stack may not exist at all
        return ""
    return "\n".join(
        f"  {e['LogicalResourceId']}: {e.get('ResourceStatusReason', e['ResourceStatus'])}"
        for e in reversed(events)
        if e["ResourceStatus"].endswith("FAILED")
    )


# -- command line -------------------------------------------------------------------


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected Parameter=Value, not {text!r}")
    return name, value


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="local_stack.py", description=__doc__.split("\n", 1)[0])
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--state", type=Path, default=DEFAULT_STATE, metavar="DIR",
                        help="state directory (default: .local/stack in the repository)")
    commands = parser.add_subparsers(dest="command", required=True)

    p = commands.add_parser("up", parents=[common], help="start the local AWS and deploy to it")
    p.add_argument("--json", action="store_true", help="print the stack as one JSON object")
    p.add_argument("--set", type=_setting, action="append", default=[], metavar="Parameter=Value",
                   dest="settings", help="a template parameter, on top of samconfig.toml")
    p.add_argument("--watch-pid", type=int, metavar="PID",
                   help="end the stack when this process ends")
    commands.add_parser("down", parents=[common], help="end it and remove its files")
    p = commands.add_parser("status", parents=[common], help="show what runs")
    p.add_argument("--json", action="store_true", help="print the stack as one JSON object")
    p = commands.add_parser("register", parents=[common], help="subscribe a partner")
    p.add_argument("subscriber")
    p.add_argument("url")
    p.add_argument("--event-type", default="OrderPaid")
    p = commands.add_parser("publish", parents=[common], help="PutEvents of a file in events/")
    p.add_argument("file", type=Path, help="the entries; - reads them from standard input")
    p = commands.add_parser("logs", parents=[common], help="show a function's log")
    p.add_argument("function", choices=["dispatch", "deliver"])
    p.add_argument("--follow", action="store_true", help="go on until the stack ends")
    p.add_argument("--json", action="store_true", help="print each line as a CloudWatch Logs event")
    p = commands.add_parser("call", parents=[common],
                            help="one AWS call, as with the AWS CLI, but JSON in and out")
    p.add_argument("service", help="for example lambda")
    p.add_argument("operation", help="for example GetFunctionConfiguration")
    p.add_argument("input", help="its input as JSON, for example {}; - reads standard input")
    commands.add_parser("deploy-receiver", parents=[common],
                        help="deploy a partner's receiver too, and print its outputs as JSON")
    p = commands.add_parser("build", help="compile the functions for this machine")
    p.add_argument("--with-receiver", action="store_true",
                   help="also the one of infra/receiver/template.yaml")
    p = commands.add_parser("emulator")  # started by `up`, not for people
    p.add_argument("--watch-pid", type=int)
    return parser.parse_args(arguments)


def _show(stack: Stack) -> None:
    print(f"The stack {stack.stack_name} runs at {stack.endpoint_url} (pid {stack.pid}).")
    for name, value in sorted(stack.outputs.items()):
        print(f"  {name:<24} {value}")
    print(
        "\nFor the AWS CLI and SDKs:\n"
        f"  export AWS_ENDPOINT_URL={stack.endpoint_url} AWS_REGION={stack.region} \\\n"
        f"         AWS_ACCESS_KEY_ID={stack.access_key_id}"
        f" AWS_SECRET_ACCESS_KEY={stack.secret_access_key}\n"
        "Without them:\n"
        "  .venv/bin/python infra/local_stack.py register kasse-nord http://127.0.0.1:8000/\n"
        "  .venv/bin/python infra/local_stack.py publish events/order-paid.json\n"
        "  .venv/bin/python infra/local_stack.py logs deliver --follow\n"
        "  .venv/bin/python infra/local_stack.py call sqs ListQueues '{}'"
    )


def _running(state: Path) -> Stack:
    stack = load(state)
    if stack is None:
        raise StackError("No local stack runs here. Start one with `make up`.")
    return stack


def run(arguments: list[str]) -> int:
    args = _parse(arguments)
    if args.command == "emulator":
        run_emulator(args.watch_pid)
    elif args.command == "build":
        build(args.with_receiver)
    elif args.command == "up":
        stack = up(args.state, dict(args.settings), args.watch_pid)
        print(json.dumps(stack.to_json())) if args.json else _show(stack)
    elif args.command == "down":
        say("The local stack is down." if down(args.state) else "No local stack was up.")
    elif args.command == "status":
        stack = _running(args.state)
        print(json.dumps(stack.to_json())) if args.json else _show(stack)
    elif args.command == "register":
        secret = _running(args.state).register(args.subscriber, args.url, args.event_type)
        print(f"{args.subscriber} is subscribed to {args.event_type}. Its signing secret: {secret}")
    elif args.command == "publish":
        for event_id in _running(args.state).publish(args.file):
            print(f"published event {event_id}")
    elif args.command == "logs":
        stack = _running(args.state)
        log = stack.follow_log if args.follow else stack.log_events
        for event in log(args.function):
            print(json.dumps(event) if args.json else event["message"].rstrip(), flush=True)
    elif args.command == "deploy-receiver":
        print(json.dumps(deploy_receiver(_running(args.state))))
    elif args.command == "call":
        text = sys.stdin.read() if args.input == "-" else args.input
        answer = _running(args.state).call(args.service, args.operation, json.loads(text))
        print(json.dumps(answer, default=_plain))
    return 0


def _plain(value) -> str:
    """What JSON has no form for: streams such as a function's answer, dates, bytes."""
    value = value.read() if hasattr(value, "read") else value
    return value.decode() if isinstance(value, bytes) else str(value)


def main() -> None:
    # A terminated `up` must clean up like an interrupted one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(run(sys.argv[1:]))
    except StackError as error:
        say(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        say("Interrupted.")
        sys.exit(130)


if __name__ == "__main__":
    main()
