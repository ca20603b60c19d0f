// An Nstance server of one shard on @grpc/grpc-js, to check our client against another implementation of gRPC, HTTP/2 and TLS:
//   node server.js CONFIG
// It loads the .proto files that our Python is generated from. Node cannot sign certificates, so the configuration has those that it gives out.
// It writes a line of JSON with its addresses, then one for each call; each line that it reads is an event to send, or a failure of the next call.
import crypto from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const config = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const load = (name) =>
  grpc.loadPackageDefinition(loader.loadSync(path.join(config.protos, name), { keepCase: true, longs: Number, defaults: true }))
    .nstance.v1;

const groups = new Map(config.groups.map((one) => [one.key, one]));
const instances = new Map(config.instances.map((one) => [one.instance_id, one]));
const streams = new Map();
const failures = new Map();

class Refusal extends Error {
  constructor(code, details) {
    super(details);
    this.code = grpc.status[code];
    this.details = details;
  }
}

// The role is a UTF8String in an extension of our own, which Node does not decode: the OID 1.3.6.1.4.1.999999.1 in DER.
const ROLE = Buffer.from("06092b06010401bd843f01", "hex");

function caller(call) {
  const certificate = call.getAuthContext().sslPeerCertificate;
  if (!certificate?.raw) throw new Refusal("UNAUTHENTICATED", "no client certificate");
  const at = certificate.raw.indexOf(ROLE);
  const value = at < 0 ? Buffer.alloc(0) : certificate.raw.subarray(at + ROLE.length + 2); // past the head of its OCTET STRING
  const role = value.subarray(2, 2 + value[1]).toString();
  const { CN: cluster, O: tenant } = certificate.subject;
  if (role !== "operator") throw new Refusal("PERMISSION_DENIED", `role ${role} is not operator`);
  if (cluster !== config.cluster_id || tenant !== config.tenant) throw new Refusal("PERMISSION_DENIED", "another tenant");
  return { cluster, tenant, role };
}

const unary = (name, decide) => (call, callback) => {
  try {
    const peer = name === "RegisterOperator" ? null : caller(call);
    say({ call: name, peer });
    const failure = failures.get(name);
    failures.delete(name);
    if (failure) throw new Refusal(failure.code, failure.text);
    callback(null, decide(call.request));
  } catch (error) {
    callback(error instanceof Refusal ? error : new Refusal("INTERNAL", String(error)));
  }
};

const stream = (name, first) => (call) => {
  try {
    say({ call: name, peer: caller(call) });
  } catch (error) {
    call.emit("error", error);
    return;
  }
  streams.set(name, call); // an older one stays open and is silent
  for (const event of first()) call.write(event);
};

const send = (name, event) => streams.get(name)?.write(event);
const etag = (group) => crypto.createHash("md5").update(JSON.stringify(group)).digest("hex");

function certificateOf(pem, which) {
  const key = crypto.createPublicKey(pem);
  if (key.asymmetricKeyType !== "ed25519") throw new Refusal("INVALID_ARGUMENT", "public key is not Ed25519");
  if (!key.equals(crypto.createPublicKey(config.client.public))) throw new Refusal("UNAUTHENTICATED", "another key");
  return { client_certificate_pem: Buffer.from(config.client[which]), expires_at: { seconds: config.client.expires, nanos: 0 } };
}

function checkNonce(nonce) {
  const [header, payload, signature] = nonce.split(".");
  const read = (part) => JSON.parse(Buffer.from(part, "base64url"));
  const signed = Buffer.from(`${header}.${payload}`);
  if (!crypto.verify(null, signed, crypto.createPublicKey(config.nonce_key), Buffer.from(signature, "base64url")))
    throw new Refusal("UNAUTHENTICATED", "invalid nonce: signature");
  const claims = read(payload);
  if (read(header).alg !== "EdDSA" || claims.kind !== "operator" || claims.exp * 1000 < Date.now())
    throw new Refusal("UNAUTHENTICATED", "invalid nonce");
  if (claims.cluster_id !== config.cluster_id || claims.sub !== config.cluster_id)
    throw new Refusal("INVALID_ARGUMENT", "nonce is of another cluster");
}

function upsert({ key, config: given }) {
  if (!key) throw new Refusal("INVALID_ARGUMENT", "key is required");
  const old = groups.get(key) ?? { key, tenant: config.tenant, is_static: false, vars: {} };
  if (old.is_static && given.template && given.template !== old.template)
    throw new Refusal("INTERNAL", `failed to upsert group: cannot override template for static group ${key}`);
  const merged = { ...old, size: given.size, vars: { ...old.vars, ...given.vars } };
  for (const field of ["template", "instance_type", "subnet_pool"]) if (given[field]) merged[field] = given[field];
  merged.etag = etag(merged);
  groups.set(key, merged);
  send("WatchGroups", { type: config.upsert_type, group: merged });
  return merged;
}

function remove({ key }) {
  groups.delete(key);
  send("WatchGroups", { type: config.delete_type, group: { key } });
  return {};
}

function known(id) {
  const found = instances.get(id);
  if (!found) throw new Refusal("NOT_FOUND", `instance ${id} not found`);
  return found;
}

function create({ instance_id, config: given }) {
  if (!groups.has(given.group)) throw new Refusal("INTERNAL", `group ${given.group} not found`);
  instances.set(instance_id, { instance_id, group: given.group, status: "running", provider_instance_id: `i-${instances.size + 1}` });
  return { instance_id, status: "pending" };
}

function acknowledge({ instance_id }) {
  const one = known(instance_id);
  one.status = "deleted";
  send("WatchInstances", { ...one, reason: "expired" });
  return {};
}

const operator = {
  RenewCertificate: unary("RenewCertificate", ({ public_key_pem }) => certificateOf(public_key_pem, "renewed")),
  ListGroups: unary("ListGroups", () => ({ groups: [...groups.values()] })),
  UpsertGroup: unary("UpsertGroup", upsert),
  DeleteGroup: unary("DeleteGroup", remove),
  CreateInstance: unary("CreateInstance", create),
  GetInstanceStatus: unary("GetInstanceStatus", ({ instance_id }) => known(instance_id)),
  DeleteInstance: unary("DeleteInstance", ({ instance_id }) => ({ status: instances.has(instance_id) ? "deleting" : "unknown" })),
  AcknowledgeDrained: unary("AcknowledgeDrained", acknowledge),
  WatchGroups: stream("WatchGroups", () => [...groups.values()].map((group) => ({ type: config.upsert_type, group }))),
  WatchInstances: stream("WatchInstances", () => []),
  WatchErrors: stream("WatchErrors", () => []),
};
const registration = {
  RegisterOperator: unary("RegisterOperator", ({ registration_nonce_jwt, public_key_pem }) => {
    checkNonce(registration_nonce_jwt);
    return certificateOf(public_key_pem, "first");
  }),
};

function listen(service, methods, asks) {
  const server = new grpc.Server();
  server.addService(service, methods);
  const identity = [{ private_key: Buffer.from(config.server.key), cert_chain: Buffer.from(config.server.certificate) }];
  const secure = grpc.ServerCredentials.createSsl(asks ? Buffer.from(config.ca) : null, identity, asks);
  return new Promise((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", secure, (error, port) => (error ? reject(error) : resolve(`127.0.0.1:${port}`))),
  );
}

const { OperatorService } = load("operator.proto");
const { RegistrationService } = load("registration.proto");
say({
  listening: {
    operator: await listen(OperatorService.service, operator, true),
    registration: await listen(RegistrationService.service, registration, false),
  },
});
const commands = readline.createInterface({ input: process.stdin });
commands.on("line", (line) => {
  const command = JSON.parse(line);
  if (command.fail) failures.set(command.fail, command);
  else send(command.stream, command.event);
  say({ done: true });
});
commands.on("close", () => process.exit(0));
