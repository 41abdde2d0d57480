// Escape sequences of terminals as pieces of text with a look. Colours become classes or numbers, never markup.

export interface Piece {
  text: string;
  classes: string;
  color?: string;
  background?: string;
}

interface Look {
  classes: Set<string>;
  color?: string | undefined;
  background?: string | undefined;
}

const sequence = /\u001b(?:\[([0-9;:]*)([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_])/g;
const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const plain = ["bold", "faint", "italic", "underline"];

function indexed(n: number): string {
  if (n >= 232)
    return `rgb(${Array(3)
      .fill(8 + (n - 232) * 10)
      .join(" ")})`;
  const level = (part: number): number => (part === 0 ? 0 : 55 + part * 40);
  const at = n - 16;
  return `rgb(${level(Math.floor(at / 36))} ${level(Math.floor(at / 6) % 6)} ${level(at % 6)})`;
}

function set(look: Look, layer: "fg" | "bg", n: number | undefined, color?: string): void {
  for (const name of look.classes) if (name.startsWith(`ansi-${layer}`)) look.classes.delete(name);
  const key = layer === "fg" ? "color" : "background";
  look[key] = color;
  if (n !== undefined && n < 16) look.classes.add(`ansi-${layer}-${n}`);
  else if (n !== undefined) look[key] = indexed(Math.min(255, n));
}

function extended(codes: number[], at: number, look: Look, layer: "fg" | "bg"): number {
  if (codes[at + 1] === 5) {
    set(look, layer, codes[at + 2] ?? 0);
    return at + 2;
  }
  if (codes[at + 1] === 2) {
    const parts = [2, 3, 4].map((i) => Math.min(255, codes[at + i] ?? 0));
    set(look, layer, undefined, `rgb(${parts.join(" ")})`);
    return at + 4;
  }
  return at;
}

function change(look: Look, text: string): void {
  const codes = text === "" ? [0] : text.split(/[;:]/).map(Number);
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] as number;
    if (code === 0) {
      look.classes.clear();
      look.color = look.background = undefined;
    } else if (code <= 4) look.classes.add(`ansi-${plain[code - 1]}`);
    else if (code === 22) {
      look.classes.delete("ansi-bold");
      look.classes.delete("ansi-faint");
    } else if (code === 23) look.classes.delete("ansi-italic");
    else if (code === 24) look.classes.delete("ansi-underline");
    else if (code >= 30 && code <= 37) set(look, "fg", code - 30);
    else if (code >= 40 && code <= 47) set(look, "bg", code - 40);
    else if (code >= 90 && code <= 97) set(look, "fg", code - 82);
    else if (code >= 100 && code <= 107) set(look, "bg", code - 92);
    else if (code === 38 || code === 48) i = extended(codes, i, look, code === 38 ? "fg" : "bg");
    else if (code === 39) set(look, "fg", undefined);
    else if (code === 49) set(look, "bg", undefined);
  }
}

/* Most lines have nothing of it, and there are very many. */
const isPlain = (line: string): boolean => line.search(control) < 0;

export function withoutAnsi(line: string): string {
  return isPlain(line) ? line : line.replace(sequence, "").replace(control, "");
}

const longestCarried = 128;

/** What is still on at the end of a line, as the sequence that turns it on; `before` was on at its beginning. */
export function carriedOver(before: string, line: string): string {
  if (!line.includes("\u001b")) return before;
  let on = before;
  for (const [whole, codes = "", end] of line.matchAll(sequence)) {
    if (end !== "m") continue;
    const isReset = /^0*(?:[;:]|$)/.test(codes);
    on = !isReset ? on + whole : /[1-9]/.test(codes) ? whole : "";
  }
  return on.length > longestCarried ? "" : on;
}

export function pieces(line: string): Piece[] {
  const look: Look = { classes: new Set() };
  const out: Piece[] = [];
  let at = 0;
  const add = (text: string): void => {
    const shown = text.replace(control, "");
    if (shown === "") return;
    out.push({
      text: shown,
      classes: [...look.classes].join(" "),
      ...(look.color !== undefined && { color: look.color }),
      ...(look.background !== undefined && { background: look.background }),
    });
  };
  for (const found of line.matchAll(sequence)) {
    add(line.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[2] === "m") change(look, found[1] ?? "");
  }
  add(line.slice(at));
  return out;
}
