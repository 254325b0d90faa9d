// deliver for Node.js: AWS SDK v3, one promise a record, and the global fetch or, with
// HTTP_CLIENT=http, node:http. `make bench` measures it beside the function in Rust. What it
// reads, sends, writes and answers is the same; docs/measuring.md says what it leaves out.

import { createHmac } from "node:crypto";
import http from "node:http";
import https from "node:https";
import {
  BatchGetItemCommand,
  BatchWriteItemCommand,
  DynamoDBClient,
  UpdateItemCommand,
} from "@aws-sdk/client-dynamodb";
import { ChangeMessageVisibilityBatchCommand, SQSClient } from "@aws-sdk/client-sqs";
import { GetParametersCommand, SSMClient } from "@aws-sdk/client-ssm";

const {
  DELIVERIES_TABLE,
  DELIVERY_LOG = "all",
  HTTP_CLIENT = "fetch",
  QUEUE_URL,
  REFERENCE_FIELDS = "",
  SECRET_PREFIX,
  TABLE_NAME,
} = process.env;

const ATTEMPTS = 8;
const TIMEOUT_MS = 10_000;
const SECRET_CACHE_MS = 300_000;
const KEPT_FOR_SECONDS = 30 * 24 * 3600;
const ROUNDS = 4;
const REFERENCES = REFERENCE_FIELDS.split(",").filter(Boolean);

// Made at cold start and used by all invocations. The SDK keeps its connections alive by itself.
const dynamodb = new DynamoDBClient({});
const sqs = new SQSClient({});
const ssm = new SSMClient({});
const agents = {
  "http:": new http.Agent({ keepAlive: true }),
  "https:": new https.Agent({ keepAlive: true }),
};
const send = { fetch: sendByFetch, http: sendByHttp }[HTTP_CLIENT];
if (send === undefined) throw new Error(`HTTP_CLIENT must be fetch or http, not ${HTTP_CLIENT}`);

/** Subscriber id to {keys, until}. */
const secrets = new Map();

export async function handler(event) {
  const deliveries = event.Records.map((record) => ({ record, job: parse(record) }));
  const jobs = deliveries.filter(({ job }) => job !== undefined).map(({ job }) => job);
  const [found] = await Promise.all([readTables(jobs), readSecrets(jobs)]);
  const ended = await Promise.all(
    deliveries.map((delivery) =>
      deliver(delivery, found).catch((error) => {
        log("error", "delivery.unsent", { messageId: delivery.record.messageId, error: `${error}` });
        return { record: delivery.record };
      }),
    ),
  );
  const failed = ended.filter(({ delivered }) => !delivered);
  await Promise.all([
    putRecords(ended.filter(({ item, isNew }) => item && isNew).map(({ item }) => item)),
    ...ended.filter(({ item, isNew }) => item && !isNew).map(({ item }) => updateRecord(item)),
    changeVisibility(failed.filter(({ delaySeconds }) => delaySeconds !== undefined)),
  ]);
  return { batchItemFailures: failed.map(({ record }) => ({ itemIdentifier: record.messageId })) };
}

function parse(record) {
  try {
    const job = JSON.parse(record.body);
    // The body must be signed and sent as it is. What JSON.parse has read can be written as it
    // was, as long as nobody sends numbers that JavaScript does not have.
    return { ...job, payload: JSON.stringify(job.body) };
  } catch (error) {
    log("error", "message.poison", { messageId: record.messageId, error: `${error}` });
    return undefined;
  }
}

async function deliver({ record, job }, found) {
  if (job === undefined) return { record };
  const subscription = found.subscriptions.get(`${job.eventType}\n${job.subscriberId}`);
  const before = found.records.get(job.webhookId);
  if (before?.state?.S === "delivered" || subscription?.enabled?.BOOL !== true) {
    log("info", "delivery.dropped", { webhookId: job.webhookId });
    return { record, delivered: true };
  }
  const { keys } = secrets.get(job.subscriberId);
  const attempt = Number(before?.attempts?.N ?? 0) + 1;
  const began = Date.now();
  const result = await post(subscription.url.S, job, keys);
  const now = Date.now();
  const delivered = result.status >= 200 && result.status < 300;
  const delaySeconds = delivered ? undefined : backoffSeconds(attempt);
  const nextAt = delivered ? undefined : new Date(now + delaySeconds * 1000).toISOString();
  const outcome = delivered ? "delivered" : "retry";
  log("info", "delivery.attempted", {
    webhookId: job.webhookId,
    eventId: job.eventId,
    eventType: job.eventType,
    subscriberId: job.subscriberId,
    messageId: record.messageId,
    host: new URL(subscription.url.S).host,
    attempt,
    outcome,
    status: result.status,
    error: result.error,
    ms: now - began,
    delaySeconds,
    nextAt,
  });
  const isKept = !delivered || DELIVERY_LOG === "all" || before !== undefined;
  const item =
    isKept && recordOf(job, record, before, { attempt, now, ms: now - began, outcome, nextAt, result });
  return { record, delivered, delaySeconds, item, isNew: before === undefined };
}

async function post(url, job, keys) {
  const timestamp = Math.floor(Date.now() / 1000);
  const signed = `${job.webhookId}.${timestamp}.${job.payload}`;
  const signature = keys
    .map((key) => `v1,${createHmac("sha256", key).update(signed).digest("base64")}`)
    .join(" ");
  const headers = {
    "content-type": "application/json",
    "user-agent": "sqs-webhooks-node",
    "webhook-id": job.webhookId,
    "webhook-timestamp": String(timestamp),
    "webhook-signature": signature,
  };
  try {
    return { status: await send(url, headers, job.payload) };
  } catch (error) {
    return { error: `${error.cause ?? error}` };
  }
}

async function sendByFetch(url, headers, body) {
  const response = await fetch(url, {
    method: "POST",
    headers,
    body,
    redirect: "manual",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  // To its end, so that the connection can be used again.
  await response.arrayBuffer();
  return response.status;
}

function sendByHttp(url, headers, body) {
  return new Promise((resolve, reject) => {
    const target = new URL(url);
    const { request } = target.protocol === "https:" ? https : http;
    const options = {
      method: "POST",
      agent: agents[target.protocol],
      headers: { ...headers, "content-length": Buffer.byteLength(body) },
    };
    const sent = request(target, options, (answer) => {
      answer.on("error", reject);
      answer.on("end", () => resolve(answer.statusCode));
      // To its end, so that the connection can be used again.
      answer.resume();
    });
    // Over connecting, sending and the whole answer, like the signal of fetch.
    const deadline = setTimeout(() => sent.destroy(new Error("no answer in time")), TIMEOUT_MS);
    sent.on("error", reject);
    sent.on("close", () => clearTimeout(deadline));
    sent.end(body);
  });
}

/** 60 s × 3ⁿ, at most 6 h, half of it by chance. */
function backoffSeconds(attempt) {
  const planned = Math.min(60 * 3 ** (attempt - 1), 6 * 3600);
  return Math.ceil(planned * (0.5 + 0.5 * Math.random()));
}

async function readTables(jobs) {
  const subscriptions = new Map();
  const records = new Map();
  const keys = new Map(
    jobs.map(({ eventType, subscriberId }) => [
      `${eventType}\n${subscriberId}`,
      { eventType: { S: eventType }, subscriberId: { S: subscriberId } },
    ]),
  );
  const ids = new Set(jobs.map(({ webhookId }) => webhookId));
  let waiting = {
    [TABLE_NAME]: {
      Keys: [...keys.values()],
      ConsistentRead: true,
      ProjectionExpression: "eventType, subscriberId, #url, enabled",
      ExpressionAttributeNames: { "#url": "url" },
    },
    [DELIVERIES_TABLE]: {
      Keys: [...ids].map((id) => ({ webhookId: { S: id } })),
      ConsistentRead: true,
      ProjectionExpression: "webhookId, #state, attempts, createdAt",
      ExpressionAttributeNames: { "#state": "state" },
    },
  };
  for (let round = 0; round < ROUNDS && Object.keys(waiting).length > 0; round++) {
    const answer = await dynamodb.send(new BatchGetItemCommand({ RequestItems: waiting }));
    for (const row of answer.Responses?.[TABLE_NAME] ?? []) {
      subscriptions.set(`${row.eventType.S}\n${row.subscriberId.S}`, row);
    }
    for (const row of answer.Responses?.[DELIVERIES_TABLE] ?? []) {
      records.set(row.webhookId.S, row);
    }
    waiting = answer.UnprocessedKeys ?? {};
  }
  return { subscriptions, records };
}

async function readSecrets(jobs) {
  const now = Date.now();
  const isMissing = (id) => !(secrets.get(id)?.until > now);
  const missing = [...new Set(jobs.map(({ subscriberId }) => subscriberId))].filter(isMissing);
  const calls = [];
  for (let first = 0; first < missing.length; first += 10) {
    const names = missing
      .slice(first, first + 10)
      .map((id) => `/${SECRET_PREFIX}/${id}/signing-secret`);
    calls.push(ssm.send(new GetParametersCommand({ Names: names, WithDecryption: true })));
  }
  for (const answer of await Promise.all(calls)) {
    for (const { Name, Value } of answer.Parameters ?? []) {
      const id = Name.split("/").at(-2);
      const keys = Value.trim()
        .split(/\s+/)
        .map((secret) => Buffer.from(secret.replace(/^whsec_/, ""), "base64"));
      secrets.set(id, { keys, until: now + SECRET_CACHE_MS });
    }
  }
}

function recordOf(job, record, before, { attempt, now, ms, outcome, nextAt, result }) {
  const at = new Date(now).toISOString();
  const entry = { n: { N: `${attempt}` }, at: { S: at }, outcome: { S: outcome }, ms: { N: `${ms}` } };
  if (result.status !== undefined) entry.status = { N: `${result.status}` };
  if (result.error !== undefined) entry.error = { S: result.error };
  if (nextAt !== undefined) entry.nextAt = { S: nextAt };
  const item = {
    webhookId: { S: job.webhookId },
    subscriberId: { S: job.subscriberId },
    eventType: { S: job.eventType },
    eventId: { S: job.eventId },
    occurredAt: { S: job.occurredAt },
    state: { S: outcome === "delivered" ? "delivered" : "retrying" },
    attempts: { N: `${attempt}` },
    refusals: { N: outcome === "delivered" ? "0" : "1" },
    startedAt: before?.createdAt ?? { S: at },
    createdAt: before?.createdAt ?? { S: at },
    updatedAt: { S: at },
    expiresAt: { N: `${Math.floor(now / 1000) + KEPT_FOR_SECONDS}` },
    history: { L: [{ M: entry }] },
    messageId: { S: record.messageId },
  };
  if (nextAt !== undefined) item.nextAt = { S: nextAt };
  const reference = REFERENCES.find((name) => job.body.data?.[name] !== undefined);
  if (reference !== undefined) item.reference = { S: String(job.body.data[reference]) };
  return item;
}

async function updateRecord({ webhookId, history, ...rest }) {
  const values = { ":none": { L: [] }, ":delivered": { S: "delivered" }, ":history": history };
  const names = { "#history": "history", "#state": "state" };
  const changes = ["#history = list_append(if_not_exists(#history, :none), :history)"];
  for (const [name, value] of Object.entries(rest)) {
    names[`#${name}`] = name;
    values[`:${name}`] = value;
    changes.push(`#${name} = :${name}`);
  }
  try {
    await dynamodb.send(
      new UpdateItemCommand({
        TableName: DELIVERIES_TABLE,
        Key: { webhookId },
        UpdateExpression: `SET ${changes.join(", ")}`,
        ConditionExpression: "attribute_not_exists(#state) OR #state <> :delivered",
        ExpressionAttributeNames: names,
        ExpressionAttributeValues: values,
      }),
    );
  } catch (error) {
    log("error", "records.unwritten", { error: `${error}` });
  }
}

async function putRecords(items) {
  if (items.length === 0) return;
  try {
    let waiting = { [DELIVERIES_TABLE]: items.map((Item) => ({ PutRequest: { Item } })) };
    for (let round = 0; round < ROUNDS && Object.keys(waiting).length > 0; round++) {
      const answer = await dynamodb.send(new BatchWriteItemCommand({ RequestItems: waiting }));
      waiting = answer.UnprocessedItems ?? {};
    }
  } catch (error) {
    log("error", "records.unwritten", { error: `${error}` });
  }
}

async function changeVisibility(failed) {
  if (failed.length === 0) return;
  try {
    const answer = await sqs.send(
      new ChangeMessageVisibilityBatchCommand({
        QueueUrl: QUEUE_URL,
        Entries: failed.map(({ record, delaySeconds }, index) => ({
          Id: `${index}`,
          ReceiptHandle: record.receiptHandle,
          VisibilityTimeout: delaySeconds,
        })),
      }),
    );
    for (const failure of answer.Failed ?? []) log("warn", "visibility.refused", failure);
  } catch (error) {
    log("error", "visibility.call_failed", { error: `${error}` });
  }
}

function log(level, message, fields) {
  const timestamp = new Date().toISOString();
  process.stdout.write(`${JSON.stringify({ timestamp, level, message, ...fields })}\n`);
}
