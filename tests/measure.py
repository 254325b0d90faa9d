"""Measure one environment of the deliver function.

Plays the Lambda Runtime API, the AWS endpoints and ten partners for a real bootstrap, on loopback,
and prints what it costs: cold start until the function asks for its first event, CPU time per
delivery, peak memory, calls of AWS. It is measured twice, with a record of each delivery and with
records of failures only. All deliveries are first attempts that succeed. The partners run in a
process of their own, so that the figures are those of the function alone. Only the standard library
is used.

    python3 tests/measure.py target/lambda/deliver/bootstrap
"""

import argparse
import asyncio
import base64
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
SUBSCRIPTIONS, DELIVERIES = "subscriptions", "deliveries"
BUDGETS = {
    "cold start to first poll, ms": 15,
    "CPU per delivery, us": 60,
    "peak memory, MB": 20,
    "DynamoDB calls per batch": 2,
    "SQS calls per batch": 1,
}


class Partner(asyncio.Protocol):
    """Answers 204 to every request, as fast as it can."""

    def connection_made(self, transport):
        self.transport, self.buffer = transport, b""

    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            start = head.index(b"content-length:") + len(b"content-length:")
            total = end + 4 + int(head[start:].split(b"\r\n", 1)[0])
            if len(self.buffer) < total:
                return
            self.buffer = self.buffer[total:]
            self.transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


def run_partners(pipe):
    async def serve():
        server = await asyncio.get_running_loop().create_server(Partner, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


async def read_request(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    line, *fields = head.decode("latin1").split("\r\n")
    headers = {k.lower(): v.strip() for k, v in (f.split(":", 1) for f in fields if f)}
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return line, headers, body


def respond(writer, body, extra=""):
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{extra}content-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


class Stage:
    """The Runtime API and the AWS endpoints, for one environment at a time."""

    def __init__(self, options, delivery_log, partner_port):
        self.options = options
        self.delivery_log = delivery_log
        self.url = f"http://127.0.0.1:{partner_port}/hook"
        self.invocations = asyncio.Queue()
        self.first_poll = self.answered = None
        self.calls = {}
        self.connections = set()

    def record(self, index):
        subscriber = f"partner-{index % self.options.partners}"
        occurred = "2026-10-29T12:00:00Z"
        data = {"orderId": "K-1001", "note": "x" * self.options.payload}
        job = {
            "webhookId": f"msg_{index}_{subscriber}",
            "eventId": str(index),
            "eventType": "OrderPaid",
            "subscriberId": subscriber,
            "occurredAt": occurred,
            "url": self.url,
            "body": {"type": "OrderPaid", "timestamp": occurred, "data": data},
        }
        return {
            "messageId": f"m{index}",
            "receiptHandle": f"r{index}",
            "body": json.dumps(job),
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1700000000000"},
            "messageAttributes": {},
            "eventSource": "aws:sqs",
        }

    async def runtime_api(self, reader, writer):
        self.connections.add(asyncio.current_task())
        try:
            while True:
                line, _, body = await read_request(reader)
                if "/invocation/next" in line:
                    if not self.first_poll.done():
                        self.first_poll.set_result(time.perf_counter())
                    event = await self.invocations.get()
                    deadline = int(time.time() * 1000) + 30_000
                    respond(
                        writer,
                        event,
                        f"Lambda-Runtime-Aws-Request-Id: r\r\nLambda-Runtime-Deadline-Ms: {deadline}\r\n"
                        "Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:eu-central-1:1:function:f\r\n",
                    )
                else:
                    self.answered.set_result((line, body))
                    respond(writer, b"{}")
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    async def aws(self, reader, writer):
        self.connections.add(asyncio.current_task())
        try:
            while True:
                _, headers, body = await read_request(reader)
                operation = headers.get("x-amz-target", "?").rsplit(".", 1)[-1]
                self.calls[operation] = self.calls.get(operation, 0) + 1
                respond(writer, json.dumps(self.aws_answer(operation, json.loads(body))).encode())
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    def aws_answer(self, operation, request):
        if operation == "GetParameters":
            return {"Parameters": [{"Name": n, "Value": SECRET} for n in request["Names"]]}
        if operation == "BatchGetItem":
            row = {"url": {"S": self.url}, "enabled": {"BOOL": True}}
            keys = request["RequestItems"][SUBSCRIPTIONS]["Keys"]
            items = {SUBSCRIPTIONS: [{**key, **row} for key in keys], DELIVERIES: []}
            return {"Responses": items, "UnprocessedKeys": {}}
        if operation == "BatchWriteItem":
            return {"UnprocessedItems": {}}
        sys.exit(f"unexpected call: {operation}")

    async def measure(self, batches):
        loop = asyncio.get_running_loop()
        self.first_poll = loop.create_future()
        runtime = await asyncio.start_server(self.runtime_api, "127.0.0.1", 0, limit=2**24)
        aws = await asyncio.start_server(self.aws, "127.0.0.1", 0, limit=2**24)
        port = lambda server: server.sockets[0].getsockname()[1]
        environment = {
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{port(runtime)}",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port(aws)}",
            "AWS_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_LAMBDA_FUNCTION_NAME": "deliver",
            "AWS_LAMBDA_FUNCTION_VERSION": "1",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
            "QUEUE_URL": f"http://127.0.0.1:{port(aws)}/1/jobs",
            "TABLE_NAME": SUBSCRIPTIONS,
            "DELIVERIES_TABLE": DELIVERIES,
            "DELIVERY_LOG": self.delivery_log,
            "REFERENCE_FIELDS": "orderId",
            "EVENT_BUS_NAME": "webhooks",
            "SECRET_PREFIX": "webhooks",
            "ALLOW_PRIVATE_ENDPOINTS": "true",
        }
        with tempfile.TemporaryFile() as log:
            began = time.perf_counter()
            process = subprocess.Popen([self.options.bootstrap], env=environment, stdout=log, stderr=log)
            try:
                cold = await asyncio.wait_for(self.first_poll, 20) - began
                first = await self.invoke(0)
                cpu, began = cpu_seconds(process.pid), time.perf_counter()
                for batch in range(1, batches):
                    await self.invoke(batch)
                elapsed = time.perf_counter() - began
                cpu = cpu_seconds(process.pid) - cpu
                peak = peak_memory_mb(process.pid)
            finally:
                process.kill()
                process.wait()
                runtime.close()
                aws.close()
                for connection in self.connections:
                    connection.cancel()
                await asyncio.gather(*self.connections)
        deliveries = (batches - 1) * self.options.batch
        calls = lambda *names: sum(self.calls.get(name, 0) for name in names) / batches
        return {
            "cold start to first poll, ms": cold * 1000,
            "first batch, ms": first * 1000,
            "CPU per delivery, us": cpu / deliveries * 1e6,
            "deliveries per second": deliveries / elapsed,
            "peak memory, MB": peak,
            "DynamoDB calls per batch": calls("BatchGetItem", "BatchWriteItem", "UpdateItem"),
            "SQS calls per batch": calls("ChangeMessageVisibilityBatch"),
        }

    async def invoke(self, batch):
        self.answered = asyncio.get_running_loop().create_future()
        size = self.options.batch
        event = {"Records": [self.record(batch * size + i) for i in range(size)]}
        began = time.perf_counter()
        self.invocations.put_nowait(json.dumps(event).encode())
        line, body = await asyncio.wait_for(self.answered, 60)
        if "/response" not in line or json.loads(body) != {"batchItemFailures": []}:
            sys.exit(f"a batch was not delivered: {line} {body[:300]}")
        return time.perf_counter() - began


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory_mb(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


async def run(options, delivery_log, partner_port):
    # Many short lives for the cold start, a few long ones for the rest.
    stage = lambda: Stage(options, delivery_log, partner_port)
    cold = [await stage().measure(2) for _ in range(10)]
    runs = [await stage().measure(options.batches) for _ in range(options.runs)]
    figures = {}
    for name in runs[0]:
        source = cold if name in ("cold start to first poll, ms", "first batch, ms") else runs
        values = sorted(r[name] for r in source)
        figures[name] = {"median": statistics.median(values), "min": values[0], "max": values[-1]}
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("bootstrap")
    parser.add_argument("--batches", type=int, default=1000, help="invocations a run")
    parser.add_argument("--batch", type=int, default=10, help="records an invocation")
    parser.add_argument("--partners", type=int, default=10)
    parser.add_argument("--payload", type=int, default=600, help="bytes")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()

    ours, theirs = multiprocessing.Pipe()
    partners = multiprocessing.Process(target=run_partners, args=(theirs,), daemon=True)
    partners.start()
    port = ours.recv()
    print(f"{options.runs} runs of {options.batches} batches of {options.batch}, "
          f"{options.partners} partners, {options.payload}-byte payloads")
    for delivery_log in ("all", "failures"):
        print(f"\nDeliveryLog: {delivery_log}")
        report(asyncio.run(run(options, delivery_log, port)))
    partners.terminate()


def report(figures):
    for name, figure in figures.items():
        line = f"{name:30} {figure['median']:9.1f}   ({figure['min']:.1f} to {figure['max']:.1f})"
        if name in BUDGETS:
            met = "met" if figure["median"] <= BUDGETS[name] else "MISSED"
            line += f"   budget {BUDGETS[name]}: {met}"
        print(line)


if __name__ == "__main__":
    main()
