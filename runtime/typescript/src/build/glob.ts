// Patterns over project paths: ** for any number of directories, * and ? within one name.

function expression(pattern: string): string {
  let out = "";
  for (let i = 0; i < pattern.length; i++) {
    const rest = pattern.slice(i);
    if (rest.startsWith("**/")) {
      out += "(?:[^/]+/)*";
      i += 2;
    } else if (rest.startsWith("**")) {
      out += ".*";
      i += 1;
    } else if (rest.startsWith("*")) out += "[^/]*";
    else if (rest.startsWith("?")) out += "[^/]";
    else out += rest.charAt(0).replace(/[.+^$()[\]{}|\\]/, "\\$&");
  }
  return out;
}

/** Whether a path relative to the project matches one of the patterns. */
export function globMatcher(patterns: readonly string[]): (path: string) => boolean {
  const all = patterns.map(
    (pattern) => new RegExp(`^${expression(pattern.replace(/^\.\//, ""))}$`, "s"),
  );
  return (path) => all.some((one) => one.test(path));
}
