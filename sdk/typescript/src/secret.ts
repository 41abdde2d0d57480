import { list, record, refuse, text } from "./check.js";
import { name } from "./names.js";
import { secretPath } from "./paths.js";

export interface BrokerRule {
  host: string;
  methods?: string[];
  paths?: string[];
}

export type Placement = (
  | { env: string; file?: never; dir?: never; mode?: never; owner?: never }
  | { file: string; env?: never; dir?: never; mode?: string; owner?: string }
  | { dir: string; env?: never; file?: never; mode?: string; owner?: string }
) & { broker?: BrokerRule[] };

export interface SecretDefinition {
  readonly name: string;
  readonly placement: "env" | "file" | "dir";
  readonly target: string;
  readonly mode?: string;
  readonly owner?: string;
  readonly broker?: readonly BrokerRule[];
}

const maxSecrets = 64;
const maxRules = 16;
const kinds = ["env", "file", "dir"] as const;
const label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const host = new RegExp(`^(?:\\*\\.)?${label}(?:\\.${label})*$`);

function octal(field: string, value: unknown): string {
  const digits = /^(?:0o)?([0-7]{1,4})$/.exec(text(field, value))?.[1];
  if (digits === undefined || Number.parseInt(digits, 8) > 0o777)
    refuse(field, `must be octal text up to "0777": ${JSON.stringify(value)}`);
  return digits.padStart(4, "0");
}

function brokerRule(field: string, value: unknown): BrokerRule {
  const rule = record(field, value, ["host", "methods", "paths"]);
  const name = text(`${field}.host`, rule.host);
  if (!host.test(name))
    refuse(`${field}.host`, `must be a host name or *.suffix: ${JSON.stringify(name)}`);
  const methods = list(`${field}.methods`, rule.methods ?? []).map((method, i) => {
    if (!/^[A-Z]{1,32}$/.test(text(`${field}.methods[${i}]`, method)))
      refuse(`${field}.methods[${i}]`, "must be an upper-case HTTP method");
    return method as string;
  });
  const paths = list(`${field}.paths`, rule.paths ?? []).map((path, i) => {
    if (!text(`${field}.paths[${i}]`, path).startsWith("/"))
      refuse(`${field}.paths[${i}]`, "must start with /");
    return path as string;
  });
  return {
    host: name.toLowerCase(),
    ...(methods.length > 0 && { methods }),
    ...(paths.length > 0 && { paths }),
  };
}

function brokerRules(field: string, value: unknown): BrokerRule[] {
  const rules = list(field, value);
  if (rules.length === 0 || rules.length > maxRules)
    refuse(field, `must have 1 to ${maxRules} rules`);
  return rules.map((rule, i) => brokerRule(`${field}[${i}]`, rule));
}

function secret(secretName: string, value: unknown, mount: string): SecretDefinition {
  const field = `secrets.${secretName}`;
  const given = record(field, value, [...kinds, "mode", "owner", "broker"]);
  const [kind, ...others] = kinds.filter((k) => given[k] !== undefined);
  if (kind === undefined || others.length > 0)
    refuse(field, "must have exactly one of env, file, dir");
  if (kind === "env" && (given.mode !== undefined || given.owner !== undefined))
    refuse(field, "must not have mode or owner: an environment variable has neither");
  const target =
    kind === "env"
      ? name(`${field}.env`, given.env, "variable")
      : secretPath(`${field}.${kind}`, given[kind]);
  if (kind === "dir" && (target === mount || mount.startsWith(`${target}/`)))
    refuse(`${field}.dir`, `must not be or hold the workspace mount ${mount}`);
  return {
    name: name("secret name", secretName, "secret"),
    placement: kind,
    target,
    ...(given.mode !== undefined && { mode: octal(`${field}.mode`, given.mode) }),
    ...(given.owner !== undefined && { owner: name(`${field}.owner`, given.owner, "account") }),
    ...(given.broker !== undefined && { broker: brokerRules(`${field}.broker`, given.broker) }),
  };
}

function refuseShared(all: readonly SecretDefinition[], mount: string): void {
  const whole = (one: SecretDefinition): string =>
    one.placement === "env" || one.target.startsWith("/") ? one.target : `${mount}/${one.target}`;
  for (const [i, one] of all.entries()) {
    const field = `secrets.${one.name}`;
    for (const other of all.slice(0, i)) {
      if ((one.placement === "env") !== (other.placement === "env")) continue;
      const [here, there] = [whole(one), whole(other)];
      const isDirectory = one.placement === "dir" && other.placement === "dir";
      if (here === there && !isDirectory)
        refuse(field, `must not share ${one.target} with ${other.name}`);
      if (here === there && (one.mode !== other.mode || one.owner !== other.owner))
        refuse(field, `must have the mode and owner of ${other.name}, which is in ${one.target} too`);
      if (here.startsWith(`${there}/`) || there.startsWith(`${here}/`))
        refuse(field, `must not be above or below ${other.name}`);
    }
  }
}

export function secrets(value: unknown, mount: string): SecretDefinition[] {
  const given = Object.entries(record("secrets", value));
  if (given.length > maxSecrets) refuse("secrets", `must be at most ${maxSecrets}`);
  const all = given.map(([secretName, placement]) => secret(secretName, placement, mount));
  refuseShared(all, mount);
  return all;
}
