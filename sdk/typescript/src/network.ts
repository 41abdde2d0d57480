import { integer, list, record, refuse, text } from "./check.js";

/** What one sandbox may list; the server and the agent keep no more. */
const PORTS_MAX = 64;

export interface NetworkOptions {
  internet?: boolean | { deny?: string[] };
  ports?: number[];
}

export interface NetworkDefinition {
  readonly internet: boolean;
  readonly deny: readonly string[];
  readonly ports: readonly number[];
}

export const openNetwork: NetworkDefinition = Object.freeze({
  internet: true,
  deny: [],
  ports: [],
});

function isIPv4(address: string): boolean {
  const parts = address.split(".");
  return (
    parts.length === 4 &&
    parts.every((part) => /^(?:0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255)
  );
}

function isIPv6(address: string): boolean {
  const halves = address.split("::");
  if (halves.length > 2) return false;
  const groups = halves.flatMap((half) => (half === "" ? [] : half.split(":")));
  if (!groups.every((group) => /^[0-9A-Fa-f]{1,4}$/.test(group))) return false;
  return halves.length === 2 ? groups.length <= 7 : groups.length === 8;
}

function prefix(field: string, value: unknown): string {
  const [address = "", length = "", ...rest] = text(field, value).split("/");
  const bits = isIPv4(address) ? 32 : isIPv6(address) ? 128 : -1;
  if (rest.length > 0 || !/^(?:0|[1-9]\d{0,2})$/.test(length) || Number(length) > bits)
    refuse(field, `must be an address prefix such as "203.0.113.0/24": ${JSON.stringify(value)}`);
  return `${address}/${length}`;
}

export function network(value: unknown): NetworkDefinition {
  const { internet = true, ports = [] } = record("network", value, ["internet", "ports"]);
  const open = typeof internet === "boolean" ? internet : true;
  const { deny = [] } =
    typeof internet === "boolean" ? {} : record("network.internet", internet, ["deny"]);
  const numbers = list("network.ports", ports).map((port, i) =>
    integer(`network.ports[${i}]`, port, 1, 65_535),
  );
  const unique = [...new Set(numbers)];
  if (unique.length > PORTS_MAX) refuse("network.ports", `must be at most ${PORTS_MAX} ports`);
  return {
    internet: open,
    deny: list("network.internet.deny", deny).map((cidr, i) =>
      prefix(`network.internet.deny[${i}]`, cidr),
    ),
    ports: unique,
  };
}
