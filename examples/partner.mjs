// A partner's endpoint for webhooks in JavaScript, with the official library (Node.js 18 or newer).
//
//     npm install standardwebhooks
//     WEBHOOKS_SECRET=whsec_... node partner.mjs

import { createPublicKey, verify } from "node:crypto";
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

// During a rotation there are two, with white space between them.
const secrets = process.env.WEBHOOKS_SECRET.trim().split(/\s+/);
const largestBody = 1024 * 1024;
// In production a table, written in the same transaction as what the event changes.
const seen = new Set();

function isGenuine(headers, body) {
  return secrets.some((secret) => {
    if (secret.startsWith("whpk_")) return verifyEd25519(secret, headers, body);
    try {
      new Webhook(secret).verify(body, headers, { jsonParse: false });
      return true;
    } catch {
      return false;
    }
  });
}

// For keys that begin with whpk_, which the library does not know.
function verifyEd25519(key, headers, body) {
  const { "webhook-id": id, "webhook-timestamp": sent, "webhook-signature": signatures } = headers;
  if (!id || !signatures || !(Math.abs(Date.now() / 1000 - sent) <= 300)) return false;
  const x = Buffer.from(key.slice("whpk_".length), "base64").toString("base64url");
  const publicKey = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  const signed = Buffer.concat([Buffer.from(`${id}.${sent}.`), body]);
  return signatures.split(" ").some((entry) => {
    const [version, signature] = entry.split(",");
    if (version !== "v1a" || !signature) return false;
    return verify(null, signed, publicKey, Buffer.from(signature, "base64"));
  });
}

async function status(request) {
  if (request.method !== "POST") return 405;
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > largestBody) return 413;
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks); // the bytes as they came, before any parser
  if (!isGenuine(request.headers, body)) return 401;
  const id = request.headers["webhook-id"];
  if (!seen.has(id)) {
    seen.add(id);
    console.log("received", JSON.parse(body).type, id);
  }
  return 202;
}

const server = createServer((request, response) => {
  status(request).then(
    (status) => response.writeHead(status, { "content-length": 0 }).end(),
    () => response.destroy(), // The client has gone.
  );
});
server.requestTimeout = 10_000; // milliseconds that a whole request may take
server.listen(Number(process.env.PORT ?? 8000), "127.0.0.1", () => {
  const { address, port } = server.address();
  console.log(`listening on ${address}:${port}`);
});
