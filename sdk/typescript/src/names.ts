import { refuse, text } from "./check.js";

interface Rule {
  readonly pattern: RegExp;
  readonly says: string;
}

const rules = {
  id: {
    pattern: /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/,
    says: "must be 1 to 128 of A-Z a-z 0-9 . _ - and start with a letter or digit",
  },
  queue: {
    pattern: /^[A-Za-z0-9][A-Za-z0-9._/-]{0,255}$/,
    says: "must be 1 to 256 of A-Z a-z 0-9 . _ / - and start with a letter or digit",
  },
  stream: {
    pattern: /^[A-Za-z0-9][A-Za-z0-9._-]{0,255}$/,
    says: "must be 1 to 256 of A-Z a-z 0-9 . _ - and start with a letter or digit",
  },
  secret: {
    pattern: /^(?!(?:con|prn|aux|nul|com[1-9]|lpt[1-9])$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/i,
    says:
      "must be 1 to 128 of A-Z a-z 0-9 _ . -, start with a letter, digit or _, " +
      "and not be a device name such as NUL",
  },
  variable: {
    pattern: /^(?!LD_|HELMR_)[A-Za-z_][A-Za-z0-9_]{0,127}$/,
    says:
      "must be 1 to 128 of A-Z a-z 0-9 _, not start with a digit, " +
      "and not start with LD_ or HELMR_",
  },
  slug: {
    pattern: /^[a-z0-9][a-z0-9-]{0,62}$/,
    says: "must be 1 to 63 of a-z 0-9 - and start with a letter or digit",
  },
  account: {
    pattern: /^(?:[A-Za-z_][\w.-]{0,31}(?::[A-Za-z_][\w.-]{0,31})?|\d{1,10}(?::\d{1,10})?)$/,
    says: "must be a user, a uid, user:group or uid:gid",
  },
} satisfies Record<string, Rule>;

export function name(field: string, value: unknown, rule: keyof typeof rules): string {
  const checked = text(field, value);
  if (!rules[rule].pattern.test(checked))
    refuse(field, `${rules[rule].says}: ${JSON.stringify(checked)}`);
  return checked;
}

/** Throws when `value` cannot be the name of a stored secret. */
export function validateSecretName(value: string): void {
  name("secret name", value, "secret");
}
