// What every object of the server needs on its way into this package's words.

/** Only the members the server gave: absent and null are both left out. */
export function given<M extends Record<string, unknown>>(
  members: M,
): { [K in keyof M]?: NonNullable<M[K]> } {
  return Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined && value !== null),
  ) as { [K in keyof M]?: NonNullable<M[K]> };
}

export const date = (text: string | null | undefined): Date | undefined =>
  text ? new Date(text) : undefined;
