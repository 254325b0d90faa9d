"""One event, four partners, every way a delivery can end.

`make demo` runs this after the build. It deploys the real template to a local AWS,
subscribes four partners, publishes one OrderPaid and shows each POST as it arrives.
The partners are HTTP servers on this machine that check every signature with the
official Standard Webhooks library. At the end the demo shows what an operator can tell
the partner who got nothing, compares what happened with what it promised, and exits
with 1 if that is not the same.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "infra"))

import local_stack  # noqa: E402
from local_stack import Stack, StackError  # noqa: E402
from boto3.dynamodb.types import TypeDeserializer  # noqa: E402
from standardwebhooks.webhooks import Webhook, WebhookVerificationError  # noqa: E402

EVENT_TYPE = "OrderPaid"
EVENT_FILE = REPO / "events" / "order-paid.json"
# The retry delays of the policy `standard`, times this: hours become seconds.
RETRY_TIME_SCALE = "0.0005"
ATTEMPTS = 8
RETRY_AFTER_SECONDS = 2
# The stories take about 30 seconds. Longer than this, and something is wrong.
LIMIT_SECONDS = 120
FIRST_POST_SECONDS = 30

# `make` says when it was started, so that the build counts as well.
STARTED = float(os.environ.get("DEMO_STARTED") or time.time())


class BrokenPromise(Exception):
    """A story did not end as the demo said it would."""


# -- the partners ------------------------------------------------------------------


@dataclass
class Post:
    """One POST as the partner saw it."""

    at: float
    webhook_id: str
    body: bytes
    status: int
    retry_after: int | None
    problem: str  # empty if the signature is right


@dataclass
class Partner:
    """A receiver on loopback. Its answers follow the script, then the last repeats."""

    name: str
    story: str
    script: list[tuple[int, int | None]]
    promise: str
    posts: list[Post] = field(default_factory=list)
    secret: str = ""
    end_state: str = ""
    url: str = ""

    def start(self, seen) -> ThreadingHTTPServer:
        partner = self
        lock = threading.Lock()

        class Receiver(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                at = time.time()
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                with lock:
                    step = min(len(partner.posts), len(partner.script) - 1)
                    status, retry_after = partner.script[step]
                    post = Post(
                        at=at,
                        webhook_id=self.headers.get("webhook-id", ""),
                        body=body,
                        status=status,
                        retry_after=retry_after,
                        problem=partner.check(body, dict(self.headers.items())),
                    )
                    partner.posts.append(post)
                    number = len(partner.posts)
                self.send_response(status)
                if retry_after is not None:
                    self.send_header("retry-after", str(retry_after))
                self.send_header("content-length", "0")
                self.end_headers()
                seen(partner, number, post)

            def log_message(self, *_) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/webhooks"
        return server

    def check(self, body: bytes, headers: dict[str, str]) -> str:
        try:
            Webhook(self.secret).verify(body, headers)
        except (WebhookVerificationError, ValueError) as error:
            return str(error) or type(error).__name__
        return ""


def four_partners() -> list[Partner]:
    return [
        Partner("kasse-nord", "accepts at once", [(204, None)], "delivered"),
        Partner(
            "lager-sued",
            f"is overloaded: 503 with Retry-After: {RETRY_AFTER_SECONDS}, twice, then accepts",
            [(503, RETRY_AFTER_SECONDS), (503, RETRY_AFTER_SECONDS), (204, None)],
            "delivered",
        ),
        Partner("kiosk-alt", "has gone for good: 410", [(410, None)], "disabled in the table"),
        Partner("archiv-west", "is broken: 500, always", [(500, None)], "in the dead-letter queue"),
    ]


# -- what is shown -------------------------------------------------------------------


class Screen:
    """Lines for a person. Several threads write; a lock keeps lines whole."""

    COLOURS = {"good": "32", "warn": "33", "bad": "31", "dim": "2", "bold": "1"}

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.published_at = 0.0

    def paint(self, text: str, style: str) -> str:
        return f"\033[{self.COLOURS[style]}m{text}\033[0m" if self.colour else text

    def line(self, text: str = "") -> None:
        with self.lock:
            print(text, flush=True)

    def heading(self) -> None:
        self.line(self.paint(
            f"{'seconds':>9}  {'partner':<12} {'attempt':>7}  {'it answered':<22} {'signature':<10} then",
            "bold",
        ))

    def event(self, at: float, partner: Partner, number: int | str, answer: str, signature: str,
              then: str, style: str) -> None:
        seconds = max(0.0, at - self.published_at)
        cells = f"{seconds:9.2f}  {partner.name:<12} {number:>7}  {answer:<22} {signature:<10} {then}"
        self.line(self.paint(cells.rstrip(), style))

    def post(self, partner: Partner, number: int, post: Post, delay_seconds: int | None) -> None:
        answer = str(post.status)
        if post.retry_after is not None:
            answer += f", Retry-After: {post.retry_after}"
        if post.problem:
            signature, then, style = "WRONG", post.problem, "bad"
        elif post.status < 300:
            signature, then, style = "verified", "delivered", "good"
        elif post.status == 410:
            signature, then, style = "verified", "never again", "warn"
        elif number >= ATTEMPTS:
            signature, then, style = "verified", "that was the last attempt", "warn"
        elif delay_seconds is not None:
            signature, then, style = "verified", f"again in {delay_seconds} s", "warn"
        else:
            signature, then, style = "verified", "again later", "warn"
        self.event(post.at, partner, number, answer, signature, then, style)

    def record(self, record: dict) -> None:
        self.line(f"  {record['webhookId']}, {record['eventType']} {record['reference']}")
        self.line(self.paint(
            f"  {record['state']}: all {record['attempts']} {record['deadReason']} are used up; "
            "the payload is kept",
            "bold",
        ))
        for entry in record["history"]:
            then = f"next at {entry['nextAt'][11:23]}" if "nextAt" in entry else ""
            self.line(f"  {entry['n']:>4}  {entry['at'][11:23]}  {entry['outcome']:<6} "
                      f"{entry['status']} after {entry['ms']} ms  {then}".rstrip())

    def table(self, partners: list[Partner]) -> None:
        rows = [("partner", "what it does", "attempts", "signatures", "end state in AWS")]
        for p in partners:
            wrong = sum(1 for post in p.posts if post.problem)
            signatures = f"{wrong} wrong" if wrong else "all verified" if p.posts else "-"
            rows.append((p.name, p.story, str(len(p.posts)), signatures, p.end_state or "not reached"))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        for number, row in enumerate(rows):
            text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
            self.line("  " + (self.paint(text, "bold") if number == 0 else text))


class Timeline:
    """Shows each POST once deliver's log tells when the next attempt comes."""

    PATIENCE_SECONDS = 2

    def __init__(self, screen: Screen, stack: Stack) -> None:
        self.screen = screen
        self.stack = stack
        self.waiting: queue.SimpleQueue = queue.SimpleQueue()
        self.next: tuple[Partner, int, Post] | None = None
        self.delays: dict[tuple[str, int], int] = {}

    def seen(self, partner: Partner, number: int, post: Post) -> None:
        self.waiting.put((partner, number, post))

    def flush(self) -> None:
        """Show what can be shown, in the order in which it came."""
        read = False
        while self.next or not self.waiting.empty():
            self.next = self.next or self.waiting.get()
            partner, number, post = self.next
            key = (post.webhook_id, number)
            again = post.status >= 300 and post.status != 410 and number < ATTEMPTS
            if again and key not in self.delays and not read:
                self.read_log()
                read = True
            late = time.time() - post.at > self.PATIENCE_SECONDS
            if again and key not in self.delays and not late:
                return
            self.screen.post(partner, number, post, self.delays.get(key))
            self.next = None

    def read_log(self) -> None:
        for event in self.stack.log_events("deliver"):
            try:
                line = json.loads(event["message"])
                if line["message"] == "delivery.attempted" and "delaySeconds" in line:
                    self.delays[line["webhookId"], line["attempt"]] = line["delaySeconds"]
            except (ValueError, KeyError, TypeError):
                continue  # Lambda's own lines


# -- what AWS says ---------------------------------------------------------------------


class Aws:
    """The end states, read where an operator would look: SQS and DynamoDB."""

    def __init__(self, stack: Stack) -> None:
        self.outputs = stack.outputs
        self.sqs = stack.client("sqs")
        self.dynamodb = stack.client("dynamodb")

    def messages_in(self, queue: str) -> int:
        """All messages of a queue, also those that wait for a retry."""
        attributes = self.sqs.get_queue_attributes(
            QueueUrl=self.outputs[queue],
            AttributeNames=[
                "ApproximateNumberOfMessages",
                "ApproximateNumberOfMessagesNotVisible",
                "ApproximateNumberOfMessagesDelayed",
            ],
        )["Attributes"]
        return sum(int(value) for value in attributes.values())

    def dead_jobs(self) -> list[dict]:
        answer = self.sqs.receive_message(
            QueueUrl=self.outputs["DeadLetterQueueUrl"], MaxNumberOfMessages=10, VisibilityTimeout=0
        )
        return [json.loads(message["Body"]) for message in answer.get("Messages", [])]

    def record(self, webhook_id: str) -> dict:
        """What is remembered of a delivery; empty if there is nothing."""
        answer = self.dynamodb.get_item(
            TableName=self.outputs["DeliveriesTableName"],
            Key={"webhookId": {"S": webhook_id}},
            ConsistentRead=True,
        )
        plain = TypeDeserializer().deserialize
        return {name: plain(value) for name, value in answer.get("Item", {}).items()}

    def enabled(self, partner: Partner) -> bool:
        row = self.dynamodb.get_item(
            TableName=self.outputs["SubscriptionsTableName"],
            Key={"eventType": {"S": EVENT_TYPE}, "subscriberId": {"S": partner.name}},
            ConsistentRead=True,
        )["Item"]
        return row["enabled"]["BOOL"]


# -- the demo ----------------------------------------------------------------------------


def run(state: Path) -> None:
    screen = Screen()
    screen.line(screen.paint("sqs-webhooks demo: one event, four partners, every ending", "bold"))
    screen.line()
    stack = local_stack.up(
        state,
        {"RetryTimeScale": RETRY_TIME_SCALE},
        watch_pid=os.getpid(),  # even a killed demo leaves nothing running
        say=screen.line,
    )
    screen.line("Deployed: the real functions, IAM enforced, retry delays 2000 times shorter.")
    screen.line()

    partners = four_partners()
    timeline = Timeline(screen, stack)
    servers = [partner.start(timeline.seen) for partner in partners]
    try:
        tell(screen, stack, partners, timeline)
    finally:
        for server in servers:
            server.shutdown()


def tell(screen: Screen, stack: Stack, partners: list[Partner], timeline: Timeline) -> None:
    screen.line(f"Four partners subscribe to {EVENT_TYPE}. Each checks every signature:")
    for partner in partners:
        partner.secret = stack.register(partner.name, partner.url, EVENT_TYPE)
        screen.line(f"  {partner.name:<12} {partner.story}")
    screen.line()
    screen.line(f"Publishing events/{EVENT_FILE.name} with PutEvents. What the partners see:")
    screen.line()
    screen.heading()
    screen.published_at = time.time()
    event_id = stack.publish(EVENT_FILE)[0]

    aws = Aws(stack)
    wait_for_the_ends(screen, aws, partners, timeline)
    screen.line()
    screen.table(partners)
    screen.line()
    check(aws, partners, event_id)

    first = min(partner.posts[0].at for partner in partners if partner.posts[0].status < 300)
    screen.line(
        f"The first webhook was delivered {first - screen.published_at:.2f} s after PutEvents "
        f"and {first - STARTED:.0f} s after `make demo` began, build included."
    )
    screen.line(screen.paint("Every story ended as promised.", "good"))
    screen.line()
    screen.line(f'"{partners[-1].name} never got the webhook for order K-1001." Its delivery record says (UTC):')
    screen.record(aws.record(f"msg_{event_id}_{partners[-1].name}"))
    screen.line()
    screen.line("Where to look next:")
    screen.line("  make up      keeps such a stack running, with the settings for the AWS CLI")
    screen.line("  README.md    how to deploy it, register a partner, ask with `webhooks log` what happened")
    screen.line("               to a delivery, and send dead ones again with `webhooks redrive`")
    screen.line("  In the AWS console the last partner's delivery would now raise the alarm")
    screen.line("  DeadLettersAlarm, and SQS > Dead-letter queue > Start DLQ redrive sends it again.")


def wait_for_the_ends(
    screen: Screen, aws: Aws, partners: list[Partner], timeline: Timeline
) -> None:
    nord, sued, alt, west = partners

    def ended(partner: Partner, state: str) -> None:
        partner.end_state = state
        screen.event(time.time(), partner, "", f"now {state}", "", "", "dim")

    started = time.time()
    while time.time() < started + LIMIT_SECONDS:
        time.sleep(0.2)
        timeline.flush()
        if not any(p.posts for p in partners) and time.time() > started + FIRST_POST_SECONDS:
            raise BrokenPromise(f"  no partner got a POST within {FIRST_POST_SECONDS} s")
        for partner in (nord, sued):
            if not partner.end_state and any(post.status < 300 for post in partner.posts):
                partner.end_state = "delivered"
        if not alt.end_state and alt.posts and not aws.enabled(alt):
            ended(alt, "disabled in the table")
        if not west.end_state and aws.messages_in("DeadLetterQueueUrl"):
            ended(west, "in the dead-letter queue")
        if all(partner.end_state for partner in partners) and not aws.messages_in("JobsQueueUrl"):
            break
    timeline.flush()


def check(aws: Aws, partners: list[Partner], event_id: str) -> None:
    """Compare what happened with what was promised; every difference is told."""
    wrong: list[str] = []

    def promise(kept: bool, otherwise: str) -> None:
        if not kept:
            wrong.append(otherwise)

    nord, sued, alt, west = partners
    for partner, posts in ((nord, 1), (sued, 3), (alt, 1), (west, ATTEMPTS)):
        promise(len(partner.posts) == posts,
                f"{partner.name} should get {posts} POSTs, it got {len(partner.posts)}")
        promise(partner.end_state == partner.promise,
                f"{partner.name} should end {partner.promise}, it is {partner.end_state or 'not'}")
        for post in partner.posts:
            promise(not post.problem, f"{partner.name}: signature not verified: {post.problem}")
            promise(post.webhook_id == f"msg_{event_id}_{partner.name}",
                    f"{partner.name}: unexpected webhook-id {post.webhook_id}")
            promise(post.body == partner.posts[0].body,
                    f"{partner.name}: the body changed between two attempts")
    for before, after in zip(sued.posts, sued.posts[1:]):
        promise(after.at - before.at >= RETRY_AFTER_SECONDS,
                f"{sued.name}: came again after {after.at - before.at:.2f} s, "
                f"asked for {RETRY_AFTER_SECONDS}")
    for partner, state in ((nord, "delivered"), (sued, "delivered"), (alt, "gone"), (west, "dead")):
        record = aws.record(f"msg_{event_id}_{partner.name}")
        promise(record.get("state") == state and record["attempts"] == len(partner.posts)
                and len(record["history"]) == len(partner.posts),
                f"{partner.name}: the delivery record says something else: {record}")
    for partner in partners:
        promise(aws.enabled(partner) == (partner is not alt),
                f"{partner.name}: enabled is {aws.enabled(partner)} in the table")
    dead = [job.get("subscriberId") for job in aws.dead_jobs()]
    promise(dead == [west.name], f"the dead-letter queue should hold {west.name}, it holds {dead}")
    for queue in ("JobsQueueUrl", "DispatchFailureQueueUrl"):
        promise(aws.messages_in(queue) == 0, f"{aws.outputs[queue]} is not empty")
    if wrong:
        raise BrokenPromise("\n".join(f"  {text}" for text in wrong))


def main() -> int:
    # Ctrl-C and a terminate request both end in the `finally` below.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    stamp = datetime.now(timezone.utc).strftime("%H%M%S")
    state = REPO / ".local" / f"demo-{stamp}-{os.getpid()}"
    code = 1
    try:
        run(state)
        code = 0
    except (KeyboardInterrupt, SystemExit) as stopped:
        print("\nInterrupted; everything is being ended.", flush=True)
        code = 143 if isinstance(stopped, SystemExit) else 130
    except StackError as error:
        print(f"\n{error}", flush=True)
    except BrokenPromise as error:
        print(f"\nThe demo did not keep its promises:\n{error}", flush=True)
    finally:
        keep_logs(state, failed=code == 1)
    return code


def keep_logs(state: Path, failed: bool) -> None:
    if failed and (stack := local_stack.load(state)):
        for function in ("dispatch", "deliver"):
            try:
                lines = [event["message"].rstrip() for event in stack.log_events(function)]
                (state / f"{function}.log").write_text("\n".join(lines) + "\n")
            except Exception as error:  # a broken stack must not hide the first reason
                print(f"No {function} log: {error}")
    local_stack.down(state, keep_log=failed)
    if failed and state.exists():
        print(f"\nNothing is left running. The logs are in {state.relative_to(REPO)}/", flush=True)
    else:
        shutil.rmtree(state, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
