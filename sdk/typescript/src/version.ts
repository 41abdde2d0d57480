/** Sent with every request; equal to package.json by a test. */
export const version = "0.1.0";
export const apiVersion = "2026-06-06";
