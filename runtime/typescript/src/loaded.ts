// Which parts of Node this process has loaded. What is not loaded has no state to care for, and
// loading it to find that out would take longer than all else at a park.
const list = (process as { moduleLoadList?: readonly string[] }).moduleLoadList;

export const isLoaded = (builtin: string): boolean =>
  list === undefined || list.includes(`NativeModule ${builtin}`);
