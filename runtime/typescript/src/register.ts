// For threads and processes that a task starts: `--import /opt/helmr/adapter/register.mjs` makes
// modules resolve there as they do in the task. The directory they start in stands for the
// workspace mount.
import { registerResolution, resolveIn } from "./hooks.ts";
import { resolutionChain } from "./places.ts";

resolveIn(resolutionChain(process.cwd(), undefined));
registerResolution();
