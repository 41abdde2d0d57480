// Objects of this package are known by a hidden symbol, never by instanceof, so that several
// copies of the package in one program work together. The symbol's value is the object's
// definition: what the adapter reads from a copy of the package it has never seen.

const symbolOf = (name: string): symbol => Symbol.for(`helmr.sdk.${name}`);

export function brand<T extends object>(target: T, name: string, definition: unknown = true): T {
  return Object.defineProperty(target, symbolOf(name), { value: definition });
}

export function hasBrand(value: unknown, name: string): boolean {
  return definitionOf(value, name) !== undefined;
}

export function definitionOf<D>(value: unknown, name: string): D | undefined {
  if (value === null || (typeof value !== "object" && typeof value !== "function"))
    return undefined;
  return (value as Record<symbol, D | undefined>)[symbolOf(name)];
}

/** A place in the program that all copies of the package share; undefined empties it. */
export function shared<T>(name: string): { value: T | undefined } {
  const symbol = symbolOf(name);
  const globals = globalThis as unknown as Record<symbol, T | undefined>;
  return {
    get value() {
      return globals[symbol];
    },
    set value(next) {
      if (next === undefined) delete globals[symbol];
      else Object.defineProperty(globals, symbol, { value: next, configurable: true });
    },
  };
}
