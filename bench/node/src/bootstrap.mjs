// The loop of a custom runtime around the handler. Lambda's own runtime for Node.js does more
// between start and first poll, so this is in favour of Node.js.

import { Agent, request } from "node:http";
import { handler } from "./handler.mjs";

const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(":");
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const ROOT = "/2018-06-01/runtime/invocation";

function call(method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
    const sent = request({ host, port, path, method, agent, headers }, (answer) => {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("end", () => resolve({ headers: answer.headers, body: Buffer.concat(chunks) }));
      answer.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

async function run() {
  for (;;) {
    const next = await call("GET", `${ROOT}/next`);
    const id = next.headers["lambda-runtime-aws-request-id"];
    try {
      const answer = await handler(JSON.parse(next.body.toString("utf8")));
      await call("POST", `${ROOT}/${id}/response`, JSON.stringify(answer));
    } catch (error) {
      const text = JSON.stringify({ errorType: error.name, errorMessage: error.message });
      await call("POST", `${ROOT}/${id}/error`, text);
    }
  }
}

run();
