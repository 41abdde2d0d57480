export const greeting = (payload: { name: string }): string => `hello, ${payload.name}`;
