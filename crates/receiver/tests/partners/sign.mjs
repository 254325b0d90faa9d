// Signs webhooks with the official Standard Webhooks library of JavaScript.
//
// Reads a JSON list of {"secret", "id", "timestamp", "body"} from standard input and prints the list
// of their signatures. The library has no ed25519: for a seed, "whsk_", Node.js itself signs.

import { createPrivateKey, sign as signEd25519 } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../../../examples/", import.meta.url));
const { Webhook } = require("standardwebhooks");

// What stands before the seed in PKCS #8 (RFC 8410 §7).
const prefix = Buffer.from("302e020100300506032b657004220420", "hex");

function sign({ secret, id, timestamp, body }) {
  if (secret.startsWith("whsk_")) {
    const seed = Buffer.from(secret.slice("whsk_".length), "base64");
    const der = Buffer.concat([prefix, seed]);
    const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
    const signature = signEd25519(null, Buffer.from(`${id}.${timestamp}.${body}`), key);
    return `v1a,${signature.toString("base64")}`;
  }
  return new Webhook(secret).sign(id, new Date(timestamp * 1000), body);
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(sign)));
